/* test_cuda_decode.c: decode in one launch: the cluster that shares the keys, and the kernel
 * chosen for few rows. */
#include <string.h>

#include "attention/cuda/decode_tiling.h"
#include "core/select.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

enum { H200_SMS = 132 };

/* The source of the row: one whose blocks share the keys, or one that splits them. */
static bool is_cluster(const att_kernel_row *row) {
    return row->family == gpu_family_of("fwd_decode_sm90");
}

static bool is_blocks(const att_kernel_row *row) {
    return row->family == gpu_family_of("fwd_decode");
}

static const att_kernel_row *cluster_row(int tile_m, int d, att_dtype dtype) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->cuda && is_cluster(row) && !row->cuda->features &&
            row->cuda->tile_m == tile_m && row->cuda->d_qk == d && row->cuda->dtype == dtype)
            return row;
    }
    fail_msg("no row of %d rows for d=%d", tile_m, d);
    return NULL;
}

static att_problem decode_of(int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t seq_q,
                             int64_t seq_k) {
    att_problem p;
    att_problem_init(&p, batch, heads_q, heads_kv, seq_q, seq_k, 128, 128, ATT_BF16);
    return p;
}

static gpu_plan plan_of(const att_kernel_row *row, const att_problem *p) {
    gpu_plan plan;
    assert_ok(gpu_plan_cut(&plan, 0, row, p));
    return plan;
}

/* The blocks of a cluster that a batch of 8 K/V heads is given. */
static int parts_of(int64_t batch, int64_t seq_k) {
    const att_problem p = decode_of(batch, 32, 8, 1, seq_k);
    const gpu_plan plan = plan_of(cluster_row(8, 128, ATT_BF16), &p);
    const att_cuda_tiling t = plan.tiling;
    assert_int_equal(t.shape.grid[0], 8 * batch);
    assert_int_equal(t.shape.grid[1], t.params.splits);
    assert_int_equal(t.shape.cluster, t.params.splits > 1 ? t.params.splits : 0);
    assert_int_equal(t.params.by_splits.value, t.params.splits);
    assert_null(t.combine);
    assert_int_equal(plan.workspace, 0);
    assert_true(t.shape.overlap);
    return t.params.splits;
}

static void test_decode__tiles__clusters_of_which_all_fit_at_once(void **state) {
    (void)state;
    fake_cuda *fake = use_fake_cuda();
    assert_int_equal(parts_of(1, 8192), 8);
    assert_int_equal(parts_of(1, 1024), 8);
    assert_int_equal(parts_of(2, 4096), 4); /* 16 clusters of 8 would be one too many */
    assert_int_equal(parts_of(8, 8192), 2);
    assert_int_equal(parts_of(64, 1024), 1);
    fake->cluster_slots = 8 * 16; /* a GPU whose groups are all complete */
    assert_int_equal(parts_of(1, 8192), 16);
    fake->cluster_most = 4; /* one that is partitioned */
    assert_int_equal(parts_of(1, 1024), 4);
    fake->cluster_most = fake->cluster_slots = 0;
}

static void test_decode__few_keys__no_block_without_any(void **state) {
    (void)state;
    assert_int_equal(parts_of(1, 16), 1);
    assert_int_equal(parts_of(1, 0), 1);
}

static void test_decode__launch__one_with_its_cluster(void **state) {
    (void)state;
    fake_cuda *fake = use_fake_cuda();
    const att_problem p = decode_of(1, 32, 8, 1, 8192);
    const gpu_plan plan = plan_of(cluster_row(8, 128, ATT_BF16), &p);
    const att_args args = {.size = sizeof args};
    const long before = fake->launches;
    assert_ok(gpu_plan_run(&plan, &args, NULL, NULL));
    assert_int_equal(fake->launches, before + 1);
    assert_int_equal(fake->cluster, plan.tiling.shape.cluster);
    assert_true(fake->cluster > 1);
    assert_int_equal(fake->attribute, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
}

static void test_decode__driver_fails__told(void **state) {
    (void)state;
    fake_cuda *fake = use_fake_cuda();
    const att_problem p = decode_of(1, 32, 8, 1, 8192);
    static const char *const calls[] = {"cuKernelSetAttribute", "cuOccupancyMaxActiveClusters"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        gpu_plan plan;
        fake->fail_call = calls[i];
        fake->fail_code = CUDA_ERROR_INVALID_VALUE;
        assert_fails(gpu_plan_cut(&plan, 0, cluster_row(8, 128, ATT_BF16), &p), ATT_E_CUDA, "",
                     calls[i]);
        fake->fail_call = NULL;
    }
}

static void test_decode__many_keys__a_second_kernel_merges(void **state) {
    (void)state;
    const att_problem p = decode_of(1, 32, 8, 1, 65536);
    const att_kernel_row *row = cluster_row(8, 128, ATT_BF16);
    const gpu_plan plan = plan_of(row, &p);
    const att_cuda_tiling t = plan.tiling;
    fake_cuda *fake = use_fake_cuda();
    assert_int_equal(t.shape.cluster, 0);
    assert_int_equal(t.shape.grid[1], t.params.splits);
    assert_int_equal(t.params.splits, H200_SMS / 8);
    assert_non_null(t.combine);
    assert_true(plan.workspace >= (size_t)t.params.splits * 32 * 130 * sizeof(float));

    /* Without a kernel that merges, a cluster does: none is as wide as this row. */
    att_cuda_kernel wide = *row->cuda;
    wide.d_v = 512;
    assert_null(att_cuda_combine_of(&wide, true));
    const att_kernel_row alone_row = gpu_row_of(&wide);
    const gpu_plan alone = plan_of(&alone_row, &p);
    assert_true(alone.tiling.shape.cluster > 1);
    assert_null(alone.tiling.combine);
    assert_int_equal(alone.workspace, 0);
    assert_int_equal(fake->sticky, 0);
}

static void assert_remark(const att_problem *p, const char *wanted) {
    char text[128];
    att_cuda_decode_remark(cluster_row(8, 128, ATT_BF16)->cuda, p, text, sizeof text);
    assert_string_equal(text, wanted);
}

static void test_decode__remark__where_keys_come_row_by_row(void **state) {
    (void)state;
    att_problem p = decode_of(1, 32, 8, 1, 8192);
    p.page_size = 7; /* not paged: ignored */
    assert_remark(&p, "");
    p.features = ATT_PAGED;
    assert_remark(&p, ", keys copied row by row: page_size=7");
    p.features = 0;
    p.d_qk = p.d_v = 96;
    assert_remark(&p, ", keys copied row by row: d_qk=96 is not 128");
    p.d_qk = 128;
    assert_remark(&p, ", keys copied row by row: d_v=96 is not 128");
}

/* The kernel on an H200 if rows without evidence are allowed. */
static const att_kernel_row *chosen(const att_problem *p) {
    static att_cuda_limits gpu = {
        .cc = 90, .sms = H200_SMS, .shared_per_block = 227 << 10, .shared_per_sm = 228 << 10};
    const att_limits limits = {
        .device = ATT_DEVICE_CUDA, .gpu = &gpu, .allow_unattested = true};
    return att_select_find(&limits, &att_operation_attention, p);
}

static void test_decode__choice__by_rows(void **state) {
    (void)state;
    static const struct {
        int64_t batch, heads_q, heads_kv, seq_q, seq_k;
        int tile_m;
    } cases[] = {
        {1, 32, 8, 1, 1024, 8},  {8, 32, 8, 1, 8192, 8}, {1, 32, 8, 4, 4096, 16},
        {1, 8, 8, 1, 2048, 8},   {1, 32, 1, 1, 512, 16}, {1, 64, 8, 1, 1024, 8},
        {1, 72, 8, 1, 1024, 16}, {1, 8, 8, 16, 300, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const att_problem p = decode_of(cases[i].batch, cases[i].heads_q, cases[i].heads_kv,
                                        cases[i].seq_q, cases[i].seq_k);
        const att_kernel_row *row = chosen(&p);
        assert_non_null(row);
        assert_true(is_cluster(row));
        assert_int_equal(row->cuda->tile_m, cases[i].tile_m);
    }
    att_problem wide = decode_of(1, 32, 8, 1, 1024);
    wide.d_qk = wide.d_v = 256;
    assert_true(is_blocks(chosen(&wide)));
}

static void refused(const att_problem *p, const att_kernel_row *row, const char *forced,
                    const char *field, const char *word) {
    static att_cuda_limits gpu = {.cc = 90, .sms = H200_SMS, .shared_per_block = 227 << 10};
    att_limits limits = {.device = ATT_DEVICE_CUDA, .gpu = &gpu, .allow_unattested = true};
    att_refusal refusal;
    strcpy(limits.kernel, forced);
    assert_false(att_row_serves(row, &limits, &att_operation_attention, p, &refusal));
    assert_string_equal(refusal.field, field);
    if (!strstr(refusal.why, word))
        fail_msg("\"%s\" does not say \"%s\"", refusal.why, word);
}

/* Pages of whole tiles have their own rows; the other rows read what these refuse. */
static void test_decode__pages__rows_for_whole_tiles(void **state) {
    (void)state;
    static const struct {
        int64_t heads_q, seq_q, page_size;
        int tile_m;
        bool paged;
    } cases[] = {{32, 1, 16, 8, true},  {32, 1, 32, 8, true},  {32, 1, 48, 8, true},
                 {32, 1, 256, 8, true}, {32, 4, 64, 16, true}, {72, 1, 128, 16, true},
                 {32, 1, 8, 8, false},  {32, 1, 7, 8, false},  {32, 4, 40, 16, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_problem p = decode_of(2, cases[i].heads_q, 8, cases[i].seq_q, 1000);
        assert_int_equal(chosen(&p)->cuda->features, 0);
        p.features = ATT_PAGED;
        p.page_size = cases[i].page_size;
        p.num_pages = 3000;
        att_problem_layout_bshd(&p);
        const att_kernel_row *row = chosen(&p);
        assert_true(is_cluster(row));
        assert_int_equal(row->cuda->tile_m, cases[i].tile_m);
        assert_int_equal(row->cuda->features, cases[i].paged ? ATT_FEATURE_PAGES : 0);
    }
}

static void test_decode__pages__refusals_name_the_field(void **state) {
    (void)state;
    const att_kernel_row *row = gpu_row_named("decode_sm90_bf16_d128_paged_m8n16s3w8");
    att_problem good = decode_of(2, 32, 8, 1, 1000);
    refused(&good, row, "", "features", "pages");
    good.features = ATT_PAGED;
    good.page_size = 64;
    good.num_pages = 100;
    att_problem_layout_bshd(&good);
    att_problem p = good;
    p.page_size = 40;
    refused(&p, row, "", "page_size", "whole tiles");
    p = good;
    p.d_qk = 96;
    refused(&p, row, "", "d_qk", "copied whole");
    p = good;
    p.d_v = 64;
    refused(&p, row, "", "d_v", "copied whole");
    p = good;
    p.v.batch = INT64_C(1) << 32; /* elements; 100 pages of 8 GB */
    refused(&p, row, "", "v", "16 GB");
    p = good;
    p.k.row = -p.k.row;
    refused(&p, row, "", "k", "below 0");
}

static void test_decode__refusals__say_why(void **state) {
    (void)state;
    const att_kernel_row *row = cluster_row(8, 128, ATT_BF16);
    att_problem p = decode_of(1, 32, 8, 4, 1024);
    refused(&p, row, "", "seq_q", "rows of a K/V head");
    refused(&p, row, row->id, "seq_q", "rows of a K/V head");
    p = decode_of(1, 32, 8, 9, 1024);
    refused(&p, row, "", "seq_q", "seq_q=9");
    p = decode_of(1, 32, 8, 1, 1024);
    p.d_qk = 136;
    refused(&p, row, "", "d_qk", "136");
    p = decode_of(1, 32, 8, 1, 1024);
    p.k.row += 4; /* rows at 8 bytes */
    refused(&p, row, "", "k", "8 bytes");
    assert_true(is_blocks(chosen(&p)));
    p = decode_of(1, 32, 8, 1, 1024);
    p.d_v = 100;
    refused(&p, row, "", "d_v", "multiple of 8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode__tiles__clusters_of_which_all_fit_at_once),
        cmocka_unit_test(test_decode__few_keys__no_block_without_any),
        cmocka_unit_test(test_decode__launch__one_with_its_cluster),
        cmocka_unit_test(test_decode__driver_fails__told),
        cmocka_unit_test(test_decode__remark__where_keys_come_row_by_row),
        cmocka_unit_test(test_decode__pages__rows_for_whole_tiles),
        cmocka_unit_test(test_decode__pages__refusals_name_the_field),
        cmocka_unit_test(test_decode__choice__by_rows),
        cmocka_unit_test(test_decode__many_keys__a_second_kernel_merges),
        cmocka_unit_test(test_decode__refusals__say_why),
    };
    return cmocka_run_group_tests(tests, use_fake_gpu, NULL);
}
