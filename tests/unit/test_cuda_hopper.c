/* test_cuda_hopper.c: how problems are divided for fwd_sm90, the contents of its tensor maps,
 * and that a kernel which reads nothing but its parameters finds every row and key through
 * them. On a fake GPU; no kernel of the library is needed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/cuda/hopper.h"
#include "attention/ref/oracle.h"
#include "cuda/embed.h"
#include "cuda/shape.h"
#include "cuda/tensor_maps.h"
#include "tests/fake_cuda/fake_tensor_map.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/fixture.h"
#include "tests/support/gpu_plan.h"

/* The library's own tables are not used: this is the source. */
static const char source[] = "the source of fwd_sm90";
const att_embedded_code att_embedded_codes[] = {{0, 0, 0, 0, 0}};
const att_embedded_text att_embedded_texts[] = {
    {"kernels/fwd_sm90.cu", source, sizeof source - 1},
    {"kernels/fwd_sm90_small.cu", source, sizeof source - 1},
    {"kernels/fwd_combine.cu", source, sizeof source - 1},
    {0, 0, 0}};

static fake_cuda *fake;

static att_cuda_kernel row_of(const char *id, att_dtype dtype, int d, int m, int n,
                              int stages) {
    return (att_cuda_kernel){.id = id,
                             .source = "fwd_sm90",
                             .targets = ATT_SM90,
                             .role = ATT_ROLE_PLAIN,
                             .dtype = dtype,
                             .d_qk = d,
                             .d_v = d,
                             .tile_m = m,
                             .tile_n = n,
                             .stages = stages,
                             .warps = 4 + m / 16};
}

static att_cuda_kernel row_d64(void) {
    return row_of("hopper_d64", ATT_F16, 64, 192, 128, 4);
}

static att_cuda_kernel row_d128(void) {
    return row_of("hopper_d128", ATT_BF16, 128, 128, 128, 2);
}

/* Two warpgroups, which share the keys of 64 rows. */
static att_cuda_kernel row_small(void) {
    att_cuda_kernel row = row_of("hopper_small", ATT_F16, 64, 64, 128, 2);
    row.source = "fwd_sm90_small";
    row.role = ATT_ROLE_SMALL;
    row.warps = 8;
    return row;
}

/* Keys in parts. */
static att_cuda_kernel row_split(void) {
    att_cuda_kernel row = row_of("hopper_split", ATT_BF16, 128, 128, 128, 2);
    row.role = ATT_ROLE_SPLIT;
    return row;
}

/* `row` becomes the kernel's, and must live as long as the plan. */
static att_status cut(gpu_plan *plan, att_kernel_row *row, const att_cuda_kernel *kernel,
                      const att_problem *p) {
    *row = gpu_row_of(kernel);
    assert_ptr_equal(row->family->cut, att_cuda_hopper_cut);
    return gpu_plan_cut(plan, 0, row, p);
}

static gpu_plan plan_of(att_kernel_row *row, const att_cuda_kernel *kernel,
                        const att_problem *p) {
    gpu_plan plan;
    assert_ok(cut(&plan, row, kernel, p));
    assert_int_equal(plan.tiling.shape.threads, 32 * kernel->warps);
    return plan;
}

static att_cuda_tiling tiling_of(const att_cuda_kernel *kernel, const att_problem *p) {
    att_kernel_row row;
    return plan_of(&row, kernel, p).tiling;
}

static att_problem problem(int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t seq_q,
                           int64_t seq_k, int64_t d, att_dtype dtype) {
    att_problem p;
    att_problem_init(&p, batch, heads_q, heads_kv, seq_q, seq_k, d, d, dtype);
    return p;
}

/* ---------------------------------------------------------------------------------- rows */

static void test_shared__by_what_fits__three_layouts_and_a_third_v(void **state) {
    (void)state;
    att_cuda_kernel k = row_d64();
    assert_int_equal(att_cuda_kernel_shared(&k), 200 * 1024 + 2048);
    k = row_d128();
    assert_int_equal(att_cuda_kernel_shared(&k), 224 * 1024 + 2048);
    k = row_of("hopper_d128_wide", ATT_BF16, 128, 192, 80, 3); /* no separate place for O */
    assert_int_equal(att_cuda_kernel_shared(&k), (2 * 48 + 3 * 40) * 1024 + 2048);
    k = row_of("hopper_d256", ATT_BF16, 256, 128, 80, 2); /* nor for a second Q */
    assert_int_equal(att_cuda_kernel_shared(&k), (64 + 160) * 1024 + 2048);
    k = row_of("hopper_d192v128", ATT_BF16, 192, 128, 112, 2); /* but for a third V */
    k.d_v = 128;
    assert_int_equal(att_cuda_kernel_shared(&k), (48 + 140 + 28) * 1024 + 2048);
}

static void test_shared__of_small__warpgroups_by_themselves(void **state) {
    (void)state;
    att_cuda_kernel k = row_small();
    /* Q; K and V, O as it is sent, tops and sums of both; barriers */
    assert_int_equal(att_cuda_kernel_shared(&k),
                     8 * 1024 + 2 * ((2 * 32 + 16) * 1024 + 512) + 2048);
    k.tile_m = 128; /* K and V are there once for all rows */
    k.tile_n = 64;
    k.stages = 4;
    k.warps = 16;
    assert_int_equal(att_cuda_kernel_shared(&k),
                     16 * 1024 + 2 * ((4 * 16 + 32) * 1024 + 1024) + 2048);
}

/* ------------------------------------------------------------------------------- cutting */

static void test_tiling__every_key_seen__one_block_an_sm_unit_after_unit(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    const att_problem p = problem(2, 16, 16, 1000, 3000, 64, ATT_F16);
    att_kernel_row row;
    const gpu_plan plan = plan_of(&row, &k, &p);
    const att_cuda_tiling t = plan.tiling;
    assert_int_equal(t.params.row_blocks, 6);
    assert_int_equal(t.params.by_row_blocks.value, 6);
    assert_int_equal(t.params.splits, 1);
    assert_int_equal(t.hopper.units, 32);
    assert_int_equal(t.hopper.tiles, 192);
    assert_int_equal(t.hopper.by_heads.value, 16);
    assert_int_equal(t.hopper.section, 1);
    assert_int_equal(t.hopper.pack, 0);
    assert_int_equal(t.hopper.copy_rows, 128);
    assert_false(t.counts_tiles);
    assert_int_equal(t.shape.grid[0], 132);
    assert_int_equal(t.shape.shared, 200 * 1024 + 2048);
    assert_true(plan.workspace >= 256 + 192 * 12 * sizeof(att_fwd_redo));
    assert_int_equal(plan.workspace % 256, 0);
}

static void test_tiling__fewer_tiles_than_sms__as_many_blocks(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    const att_problem p = problem(1, 4, 4, 300, 300, 64, ATT_F16);
    const att_cuda_tiling t = tiling_of(&k, &p);
    assert_int_equal(t.shape.grid[0], 8);
}

static void test_tiling__causal__units_that_share_l2_are_taken_together(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    att_problem p = problem(4, 16, 16, 8192, 8192, 128, ATT_BF16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    att_cuda_tiling t = tiling_of(&k, &p);
    /* Five eighths of 50 MiB hold K and V of 7 heads, 4 MiB each: ten sections of the 64. */
    assert_int_equal(t.hopper.section, 7);
    assert_true(t.counts_tiles);

    p = problem(4, 16, 4, 8192, 8192, 128, ATT_BF16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    t = tiling_of(&k, &p);
    /* Four units share one K and V: three sections of the 16 groups. */
    assert_int_equal(t.hopper.section, 4 * 6);

    p = problem(1, 2, 2, 100000, 100000, 128, ATT_BF16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    t = tiling_of(&k, &p);
    assert_int_equal(t.hopper.section, 1);
    assert_true(t.counts_tiles);

    p = problem(2, 2, 2, 300, 300, 128, ATT_BF16);
    p.window_left = 20;
    t = tiling_of(&k, &p);
    assert_int_equal(t.hopper.section, 4); /* no more than there are */
}

/* If later rows see more keys, the short tile is the first. */
static void test_tiling__causal__rows_are_cut_from_the_end(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    att_problem p = problem(2, 16, 16, 1000, 1000, 64, ATT_F16);
    assert_int_equal(tiling_of(&k, &p).hopper.top_rows, 0);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    assert_int_equal(tiling_of(&k, &p).hopper.top_rows, 6 * 192 - 1000);
    p.seq_q = 960;
    assert_int_equal(tiling_of(&k, &p).hopper.top_rows, 0);
    p.seq_q = 961;
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    assert_int_equal(tiling_of(&k, &p).hopper.top_rows, 191);
    p.features |= ATT_CU_SEQLENS_Q; /* sequences of other lengths */
    p.total_q = 1500;
    assert_int_equal(tiling_of(&k, &p).hopper.top_rows, 0);
    att_problem few = problem(2, 16, 4, 100, 1000, 64, ATT_F16); /* heads share a tile */
    few.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    assert_int_equal(tiling_of(&k, &few).hopper.top_rows, 0);
}

static void
test_tiling__small_last_section__a_third_of_the_row_blocks_at_the_end(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    att_problem p = problem(1, 16, 16, 16384, 16384, 128, ATT_BF16);
    att_cuda_tiling t = tiling_of(&k, &p);
    assert_int_equal(t.hopper.last_blocks, 0); /* every tile sees every key */
    p.causal = ATT_CAUSAL_TOP_LEFT;
    t = tiling_of(&k, &p);
    /* Sections of 3 heads: the last has one, 128 tiles for 132 SMs. */
    assert_int_equal(t.hopper.section, 3);
    assert_int_equal(t.hopper.last_blocks, 128 / 3);

    p = problem(1, 18, 18, 16384, 16384, 128, ATT_BF16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    t = tiling_of(&k, &p);
    assert_int_equal(t.hopper.section, 3);
    assert_int_equal(t.hopper.last_blocks, 0);
}

static void test_tiling__lengths__count_tiles(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    att_problem p = problem(4, 2, 2, 500, 500, 128, ATT_BF16);
    p.features = ATT_LENS_K;
    att_cuda_tiling t = tiling_of(&k, &p);
    assert_true(t.counts_tiles);
    p.features = ATT_CU_SEQLENS_K; /* 4096 keys per sequence, half a MiB each of K and V */
    p.total_k = 4 * 4096;
    p.seq_k = 16000;
    t = tiling_of(&k, &p);
    assert_true(t.counts_tiles);
    assert_int_equal(t.hopper.section, 8);
}

static void test_tiling__few_rows__the_heads_of_a_group_share_a_tile(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    static const struct {
        int64_t heads_q, seq_q;
        int pack;
    } cases[] = {{8, 100, 2}, {8, 128, 0}, {6, 100, 0}, {2, 100, 0}, {32, 20, 4}, {64, 20, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const att_problem p =
            problem(3, cases[i].heads_q, 2, cases[i].seq_q, 500, 128, ATT_BF16);
        const att_cuda_tiling t = tiling_of(&k, &p);
        assert_int_equal(t.hopper.pack, cases[i].pack);
        const int64_t heads = cases[i].pack ? 2 : cases[i].heads_q;
        assert_int_equal(t.hopper.units, 3 * heads);
        assert_int_equal(t.params.row_blocks, ((cases[i].seq_q << cases[i].pack) + 127) / 128);
    }
}

/* Blocks that do not persist: as many as tiles, with no counter. */
static void test_tiling__of_small__a_block_a_tile(void **state) {
    (void)state;
    const att_cuda_kernel k = row_small();
    att_problem p = problem(2, 8, 8, 700, 700, 64, ATT_F16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    const att_cuda_tiling t = tiling_of(&k, &p);
    assert_int_equal(t.shape.grid[0], 16 * 11);
    assert_true(t.shape.overlap);
    assert_false(t.counts_tiles);
}

/* Every SM gets a part of some tile of rows, and a second kernel merges the parts. */
static void test_tiling__of_split__parts_fill_the_gpu(void **state) {
    (void)state;
    const att_cuda_kernel k = row_split();
    att_problem p = problem(1, 32, 8, 64, 16384, 128, ATT_BF16);
    att_kernel_row row;
    gpu_plan plan = plan_of(&row, &k, &p);
    att_cuda_tiling t = plan.tiling;
    assert_int_equal(t.hopper.pack, 2);
    assert_int_equal(t.params.splits, 8); /* of 16 tiles of rows */
    assert_int_equal(t.params.by_splits.value, 8);
    assert_int_equal(t.hopper.tiles, 128);
    assert_int_equal(t.shape.grid[0], 128);
    assert_false(t.counts_tiles);
    assert_non_null(t.combine);
    assert_true(t.shape.overlap && t.combine_shape.overlap);
    assert_int_equal(plan.workspace, 256 + 8 * 32 * 64 * 130 * sizeof(float));

    p.causal = ATT_CAUSAL_BOTTOM_RIGHT; /* a block has at most one part: no counter */
    t = tiling_of(&k, &p);
    assert_false(t.counts_tiles);
    p = problem(1, 1, 1, 15000, 15000, 128, ATT_BF16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    t = tiling_of(&k, &p);
    assert_true(t.counts_tiles);
    assert_int_equal(t.hopper.top_rows, 0);
    assert_int_equal(t.hopper.tiles, 118 * t.params.splits);
    assert_int_equal(t.shape.grid[0], 132);
}

/* If tiles of rows fill the GPU, O in float32 takes one part, which a second kernel writes. */
static void test_tiling__of_split__one_part_for_float32(void **state) {
    (void)state;
    const att_cuda_kernel k = row_split();
    att_problem p = problem(1, 8, 8, 8192, 8192, 128, ATT_BF16);
    p.dtype_o = ATT_F32;
    att_kernel_row row;
    const gpu_plan plan = plan_of(&row, &k, &p);
    assert_int_equal(plan.tiling.params.splits, 1);
    assert_int_equal(plan.tiling.hopper.tiles, 512);
    assert_non_null(plan.tiling.combine);
    assert_int_equal(plan.workspace, 256 + 8 * 8192 * 130 * sizeof(float));
}

static void test_tiling__nothing_to_do__nothing_launched(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    const att_problem p = problem(2, 4, 4, 0, 100, 64, ATT_F16);
    att_kernel_row row;
    const gpu_plan plan = plan_of(&row, &k, &p);
    const att_args args = {.size = sizeof args};
    assert_int_equal(plan.workspace, 0);
    fake->launches = 0;
    assert_ok(gpu_plan_run(&plan, &args, NULL, NULL));
    assert_int_equal(fake->launches, 0);
}

static void test_tiling__too_many_tiles__refused(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    const att_problem p = problem(40000, 60000, 60000, 8, 8, 64, ATT_F16);
    att_kernel_row row;
    gpu_plan plan;
    assert_fails(cut(&plan, &row, &k, &p), ATT_E_UNSUPPORTED, "batch", "tiles");
}

/* ---------------------------------------------------------------------------------- maps */

static void assert_axis(const fake_tensor_map *m, int axis, uint32_t size, uint64_t stride,
                        int box) {
    assert_int_equal(m->size[axis], size);
    if (axis > 0)
        assert_int_equal(m->stride[axis - 1], stride);
    assert_int_equal(m->box[axis], box);
}

static void test_maps__packed_heads__rows_of_a_group_lie_together(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    const att_problem p = problem(3, 8, 2, 100, 500, 128, ATT_BF16); /* BSHD */
    const att_cuda_tiling t = tiling_of(&k, &p);
    const fake_tensor_map *q = fake_map_of(&t.hopper.q), *v = fake_map_of(&t.hopper.v);
    assert_non_null(q);
    assert_int_equal(q->rank, 5);
    assert_int_equal(q->type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    assert_int_equal(q->swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
    assert_axis(q, 0, 128, 0, 64);
    assert_axis(q, 1, 4, 256, 4);
    assert_axis(q, 2, 100, 8 * 256, 16);
    assert_axis(q, 3, 2, 4 * 256, 1);
    assert_axis(q, 4, 3, 100 * 8 * 256, 1);
    const fake_tensor_map *o = fake_map_of(&t.hopper.o);
    assert_int_equal(o->rank, 5);
    assert_axis(o, 1, 4, 256, 4);
    assert_axis(o, 2, 100, 8 * 256, 16); /* a warpgroup's 64 rows */
    assert_int_equal(v->rank, 4);
    assert_axis(v, 0, 128, 0, 64);
    assert_axis(v, 1, 500, 2 * 256, 128);
    assert_axis(v, 2, 2, 256, 1);
    assert_axis(v, 3, 3, 500 * 2 * 256, 1);
}

static void test_maps__strides_never_stepped_along__do_not_matter(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    att_problem p = problem(1, 1, 1, 300, 300, 40, ATT_F16);
    p.q.batch = p.k.batch = p.v.batch = p.o.batch = 3;
    p.q.head = p.k.head = p.v.head = p.o.head = 0;
    const att_cuda_tiling t = tiling_of(&k, &p);
    assert_axis(fake_map_of(&t.hopper.q), 0, 40, 0, 64);
}

static void test_maps__driver_refuses__its_words(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    const att_problem p = problem(1, 4, 4, 300, 300, 64, ATT_F16);
    att_kernel_row row;
    gpu_plan plan;
    fake->fail_call = "cuTensorMapEncodeTiled";
    fake->fail_code = CUDA_ERROR_INVALID_VALUE;
    assert_fails(cut(&plan, &row, &k, &p), ATT_E_CUDA, "",
                 "cuTensorMapEncodeTiled for hopper_d64");
    fake->fail_call = NULL;
}

/* The fake driver refuses what the real one refuses: a map that passes here is accepted
 * there. */
static void test_encode__what_no_map_may_have__refused(void **state) {
    (void)state;
    const att_cuda_driver *cu = att_cuda_driver_get(NULL);
    att_tensor_map map;
    const att_tensor_walk good = {.rank = 3,
                                  .axis = {{64, 1, 64}, {100, 64, 64}, {3, 6400, 1}}};
    assert_ok(att_cuda_tensor_map_encode(&map, cu, ATT_F16, &good, "k"));
    for (int fault = 0; fault < 8; fault++) {
        att_tensor_walk bad = good;
        switch (fault) {
        case 0:
            bad.rank = 0;
            break;
        case 1:
            bad.axis[0].box = 128; /* 256 bytes of a row that is swizzled by 128 */
            break;
        case 2:
            bad.axis[1].box = 257;
            break;
        case 3:
            bad.axis[1].box = 0;
            break;
        case 4:
            bad.axis[1].stride = 60;
            break;
        case 5:
            bad.axis[2].stride = ATT_TENSOR_STRIDE_END / 2;
            break;
        case 6:
            bad.axis[1].stride = 0;
            break;
        default:
            bad.axis[1].size = (INT64_C(1) << 32) + 1;
        }
        assert_fails(att_cuda_tensor_map_encode(&map, cu, ATT_F16, &bad, "k"), ATT_E_CUDA, "",
                     "cuTensorMapEncodeTiled");
    }
    char place[32];
    assert_ok(att_cuda_tensor_map_encode(&map, cu, ATT_F16, &good, "k"));
    assert_fails(att_cuda_tensor_map_point(&map, cu, place + 1 + (uintptr_t)place % 2, "k"),
                 ATT_E_CUDA, "", "cuTensorMapReplaceAddress");
    assert_ok(att_cuda_tensor_map_point(&map, cu, NULL, "k"));
}

/* ------------------------------------------------------------------------------- refusals */

static void assert_refused(const att_cuda_kernel *k, const att_problem *p, const char *field,
                           const char *word) {
    const char *at_fault;
    const char *why = att_cuda_hopper_refusal(k, p, &at_fault);
    if (!why || strcmp(at_fault, field) != 0 || !strstr(why, word))
        fail_msg("wanted %s: %s, got %s: %s", field, word, why ? at_fault : "nothing",
                 why ? why : "");
}

static void assert_served(const att_cuda_kernel *k, const att_problem *p) {
    const char *field;
    const char *why = att_cuda_hopper_refusal(k, p, &field);
    if (why)
        fail_msg("%s: %s", field, why);
    assert_null(field);
}

static void test_refusal__head_dimensions__of_another_row(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    att_problem p = problem(1, 4, 4, 300, 300, 64, ATT_BF16);
    assert_refused(&k, &p, "d_qk", "64 columns");
    p = problem(1, 4, 4, 300, 300, 72, ATT_BF16);
    assert_served(&k, &p);
    att_problem_init(&p, 1, 4, 4, 300, 300, 128, 64, ATT_BF16);
    assert_refused(&k, &p, "d_v", "64 columns");
}

static void test_refusal__strides__that_maps_do_not_take(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    const att_problem good = problem(2, 4, 4, 300, 300, 128, ATT_BF16);
    assert_served(&k, &good);
    att_problem p = good;
    p.k.head = 0; /* one head for all: broadcast */
    assert_refused(&k, &p, "k", "stride");
    p = good;
    p.v.batch = INT64_C(1) << 39;
    assert_refused(&k, &p, "v", "stride");
    p.v.batch--;
    assert_served(&k, &p);
    p = good;
    p.q.head = INT64_C(1) << 35;
    assert_refused(&k, &p, "q", "stride");
    p = good;
    p.o.row = 0;
    assert_refused(&k, &p, "o", "stride");
    p.seq_q = 1; /* never stepped along */
    assert_served(&k, &p);
    p = problem(2, 4, 4, 300, 0, 128, ATT_BF16); /* strides of nothing */
    assert_int_equal(p.k.batch, 0);
    assert_served(&k, &p);
}

static void test_refusal__pages__that_no_copy_fits(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    att_problem p = problem(2, 4, 4, 300, 300, 128, ATT_BF16);
    p.features = ATT_PAGED;
    p.num_pages = 100;
    static const struct {
        int64_t size;
        bool served;
    } pages[] = {{8, true},   {16, true}, {128, true}, {256, true},  {64, true}, {24, true},
                 {192, true}, {4, false}, {12, false}, {100, false}, {1, false}};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        p.page_size = pages[i].size;
        if (pages[i].served)
            assert_served(&k, &p);
        else
            assert_refused(&k, &p, "page_size", "multiple of 8");
    }
    p.page_size = 128;
    p.features = ATT_PAGED | ATT_STARTS_K;
    assert_refused(&k, &p, "features", "starts_k");
    p.features = ATT_STARTS_K;
    assert_served(&k, &p);
}

/* ------------------------------------------------------------------------------- answers */

/* Every row of O and LSE as the oracle has it. */
static void assert_right(const fixture *f) {
    const att_problem *p = &f->problem;
    double *logits = malloc((size_t)(p->seq_k + 1) * sizeof *logits);
    double *o = malloc((size_t)p->d_v * sizeof *o), lse;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < att_ref_len_q(p, &f->args, b); i++) {
                att_ref_row(p, &f->args, b, h, i, logits, o, &lse);
                for (int64_t c = 0; c < p->d_v; c++)
                    assert_near((double)fixture_get(f, BUF_O, b, h, i, c), o[c], 2e-3);
                if (p->features & ATT_LSE)
                    assert_near((double)fixture_lse(f, b, h, i), lse, 1e-4);
            }
    free(logits);
    free(o);
}

/* Plan and run on the fake GPU, whose kernel reads only its parameters. */
static void assert_answers(const att_cuda_kernel *k, const att_problem *p) {
    fixture f;
    fixture_open(&f, p, 7);
    att_kernel_row row;
    const gpu_plan plan = plan_of(&row, k, p);
    const bool counts_tiles = plan.tiling.counts_tiles;
    assert_served(k, p);
    void *workspace = aligned_alloc(256, plan.workspace + 256);
    assert_non_null(workspace);
    memset(workspace, 0x5a, plan.workspace); /* the counter must be set, not assumed */
    fake->launches = 0;
    assert_ok(gpu_plan_run(&plan, &f.args, workspace, NULL));
    const bool merges = plan.tiling.combine != NULL;
    assert_int_equal(merges, k->role == ATT_ROLE_SPLIT);
    assert_int_equal(fake->launches, 1 + counts_tiles + merges);
    assert_int_equal(fake->sticky, 0);
    assert_int_equal(fake->params_bytes,
                     merges ? sizeof(att_fwd_params) : sizeof(att_fwd_sm90_params));
    const att_fwd_sm90_params *h = (const void *)fake->params;
    if (!merges)
        assert_ptr_equal(h->next_tile, counts_tiles ? workspace : NULL);
    assert_string_equal(f.launch.kernel, k->id);
    fixture_assert_intact(&f);
    assert_right(&f);
    free(workspace);
    fixture_close(&f);
}

static void test_answers__shapes_and_masks__through_the_maps(void **state) {
    (void)state;
    const att_cuda_kernel d64 = row_d64(), d128 = row_d128();
    att_problem p = problem(2, 3, 3, 197, 131, 64, ATT_F16);
    p.features = ATT_LSE;
    assert_answers(&d64, &p);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    assert_answers(&d64, &p);
    p = problem(1, 4, 2, 130, 70, 40, ATT_F16); /* GQA, missing columns */
    p.window_left = 9;
    p.window_right = 3;
    assert_answers(&d64, &p);
    p = problem(2, 8, 2, 37, 50, 96, ATT_BF16); /* heads packed */
    p.features = ATT_LSE;
    assert_answers(&d128, &p);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    assert_answers(&d128, &p);
    p = problem(2, 4, 2, 5, 0, 128, ATT_BF16); /* no keys */
    assert_answers(&d128, &p);
}

static void test_answers__of_small__through_the_maps(void **state) {
    (void)state;
    const att_cuda_kernel k = row_small();
    att_problem p = problem(2, 3, 3, 130, 131, 64, ATT_F16);
    p.features = ATT_LSE;
    assert_answers(&k, &p);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    assert_answers(&k, &p);
    p = problem(2, 8, 2, 20, 50, 40, ATT_F16); /* heads packed */
    assert_answers(&k, &p);
    p = problem(3, 4, 2, 60, 80, 64, ATT_F16);
    p.features = ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LSE;
    p.total_q = 150;
    p.total_k = 200;
    att_problem_layout_bshd(&p);
    assert_answers(&k, &p);
}

static void test_answers__of_split__through_the_maps(void **state) {
    (void)state;
    const att_cuda_kernel k = row_split();
    att_problem p = problem(2, 8, 2, 37, 400, 96, ATT_BF16); /* heads packed */
    p.features = ATT_LSE;
    assert_answers(&k, &p);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    assert_answers(&k, &p);
    p = problem(3, 4, 2, 60, 180, 128, ATT_BF16);
    p.features = ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LSE;
    p.total_q = 150;
    p.total_k = 500;
    att_problem_layout_bshd(&p);
    assert_answers(&k, &p);
}

/* Written by the kernel that merges parts, of which there may be one. O has no map: the copy
 * engine's boxes hold 16-bit columns. */
static void test_answers__of_split__in_float32(void **state) {
    (void)state;
    const att_cuda_kernel k = row_split();
    static const int64_t keys[] = {0, 50, 128, 400, 9000};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        att_problem p = problem(1, 4, 2, 37, keys[i], 96, ATT_BF16);
        p.dtype_o = ATT_F32;
        p.features = ATT_LSE;
        assert_answers(&k, &p);
    }
    att_problem p = problem(3, 4, 2, 60, 180, 128, ATT_BF16);
    p.features = ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LSE;
    p.total_q = 150;
    p.total_k = 500;
    p.dtype_o = ATT_F32;
    att_problem_layout_bshd(&p);
    assert_answers(&k, &p);
}

static void test_answers__strides__of_any_order(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    att_problem p = problem(2, 4, 2, 33, 45, 128, ATT_BF16);
    att_problem_layout_bhsd(&p);
    assert_answers(&k, &p);
    p = problem(2, 4, 4, 33, 45, 128, ATT_BF16);
    p.q.row += 8;
    p.q.batch = 33 * p.q.row + 16;
    assert_answers(&k, &p);
}

static void test_answers__lengths__of_packed_sequences(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    att_problem p = problem(3, 4, 2, 60, 80, 128, ATT_BF16);
    p.features = ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LSE;
    p.total_q = 150;
    p.total_k = 200;
    att_problem_layout_bshd(&p);
    assert_answers(&k, &p);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    p.seq_q = 140; /* the longest possible: heads are not packed */
    assert_answers(&k, &p);
    p = problem(3, 4, 2, 60, 80, 128, ATT_BF16);
    p.features = ATT_LENS_K;
    assert_answers(&k, &p);
    p.features = ATT_LENS_K | ATT_STARTS_K;
    assert_answers(&k, &p);
}

static void test_answers__pages__smaller_and_larger_than_a_tile(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d128();
    static const int64_t sizes[] = {8, 32, 128, 256, 48, 80};
    static const int copies[] = {8, 32, 128, 128, 16, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        att_problem p = problem(2, 4, 2, 20, 300, 128, ATT_BF16);
        p.features = ATT_PAGED;
        p.page_size = sizes[i];
        p.num_pages = 2 * ((300 + sizes[i] - 1) / sizes[i]);
        att_problem_layout_bshd(&p);
        const att_cuda_tiling t = tiling_of(&k, &p);
        assert_int_equal(t.hopper.copy_rows, copies[i]);
        assert_answers(&k, &p);
    }
}

/* Only the memset if needed, the maps and the launch: no allocation, no wait. */
/* ------------------------------------------------------------------------------ features */

static att_cuda_kernel row_bias(void) {
    att_cuda_kernel k = row_of("hopper_bias_d128", ATT_BF16, 128, 128, 96, 2);
    k.features = ATT_FEATURE_BIAS;
    return k;
}

static att_problem problem_with_bias(int64_t batch, int64_t row, int64_t head) {
    att_problem p = problem(batch, 4, 4, 200, 304, 128, ATT_BF16);
    p.features = ATT_BIAS;
    p.bias_dtype = ATT_BF16;
    p.bias = (att_strides){0, head, row, 1};
    return p;
}

static void test_shared__with_a_bias__instead_of_a_second_q_and_a_third_v(void **state) {
    (void)state;
    att_cuda_kernel k = row_bias();
    assert_int_equal(att_cuda_kernel_shared(&k), (96 + 32 + 32 + 48) * 1024 + 2048);
    k = row_of("hopper_bias_d256", ATT_BF16, 256, 128, 64, 2);
    k.features = ATT_FEATURE_BIAS;
    assert_int_equal(att_cuda_kernel_shared(&k), (128 + 64 + 32) * 1024 + 2048);
}

static void test_bias__broadcast__sizes_of_one(void **state) {
    (void)state;
    const att_cuda_kernel k = row_bias();
    att_problem p = problem_with_bias(2, 304, 200 * 304);
    att_cuda_tiling t = tiling_of(&k, &p);
    const fake_tensor_map *map = fake_map_of(&t.bias.map);
    assert_true(t.has_features);
    assert_true(t.bias.rows == 200 && t.bias.heads == 4 && t.bias.batches == 1);
    assert_int_equal(map->swizzle, CU_TENSOR_MAP_SWIZZLE_64B);
    assert_true(map->box[0] == 32 && map->box[1] == 64);
    p = problem_with_bias(2, 0, 304); /* the same for all rows */
    t = tiling_of(&k, &p);
    map = fake_map_of(&t.bias.map);
    assert_true(t.bias.rows == 1 && t.bias.heads == 4);
    assert_true(map->box[0] == 32 && map->box[1] == 1);
    p = problem_with_bias(2, 304, 200 * 304);
    p.heads_kv = 1;
    assert_int_equal(tiling_of(&k, &p).hopper.pack, 0); /* a tile is of one head */
}

static void test_run__bias_not_aligned__named(void **state) {
    (void)state;
    const att_cuda_kernel k = row_bias();
    const att_problem p = problem_with_bias(1, 304, 0);
    fixture f;
    fixture_open(&f, &p, 3);
    att_kernel_row row;
    const gpu_plan plan = plan_of(&row, &k, &p);
    void *workspace = aligned_alloc(256, plan.workspace + 256);
    assert_non_null(workspace);
    f.args.bias = (const char *)f.args.bias + 2;
    fake->launches = 0;
    assert_int_equal(gpu_plan_run(&plan, &f.args, workspace, NULL), ATT_E_ARG);
    assert_string_equal(att_last_error()->field, "bias");
    assert_int_equal(fake->launches, 0);
    free(workspace);
    fixture_close(&f);
}

/* ------------------------------------------------------------------------------- running */

static void test_run__driver_calls__few(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    att_problem p = problem(1, 2, 2, 100, 100, 64, ATT_F16);
    fixture f;
    fixture_open(&f, &p, 3);
    for (int causal = 0; causal < 2; causal++) {
        p.causal = causal ? ATT_CAUSAL_TOP_LEFT : ATT_CAUSAL_NONE;
        att_kernel_row row;
        const gpu_plan plan = plan_of(&row, &k, &p);
        void *workspace = aligned_alloc(256, plan.workspace);
        const long live = fake->memory_live;
        fake->calls = 0;
        assert_ok(gpu_plan_run(&plan, &f.args, workspace, NULL));
        /* CtxGetCurrent, CtxPushCurrent, 4 maps; CtxGetCurrent, CtxGetDevice, launch, the last
         * three twice if tiles are counted */
        assert_int_equal(fake->calls, 9 + 3 * causal);
        assert_int_equal(fake->memory_live, live);
        free(workspace);
    }
    fixture_close(&f);
}

static void test_run__a_call_fails__its_name(void **state) {
    (void)state;
    const att_cuda_kernel k = row_d64();
    att_problem p = problem(1, 2, 2, 100, 100, 64, ATT_F16);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    fixture f;
    fixture_open(&f, &p, 3);
    att_kernel_row row;
    const gpu_plan plan = plan_of(&row, &k, &p);
    void *workspace = aligned_alloc(256, plan.workspace);
    static const char *const calls[] = {"cuTensorMapReplaceAddress", "cuLaunchKernelEx"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fake->fail_call = calls[i];
        fake->fail_code = CUDA_ERROR_LAUNCH_FAILED;
        assert_fails(gpu_plan_run(&plan, &f.args, workspace, NULL), ATT_E_CUDA, "", calls[i]);
        fake->fail_call = NULL;
        assert_ok(gpu_plan_run(&plan, &f.args, workspace, NULL));
    }
    free(workspace);
    fixture_close(&f);
}

static int set_up(void **state) {
    (void)state;
    setenv("FAKE_CUDA_COMPUTES", "1", 1);
    fake = use_fake_cuda();
    use_fake_nvrtc();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared__by_what_fits__three_layouts_and_a_third_v),
        cmocka_unit_test(test_tiling__every_key_seen__one_block_an_sm_unit_after_unit),
        cmocka_unit_test(test_tiling__fewer_tiles_than_sms__as_many_blocks),
        cmocka_unit_test(test_tiling__causal__units_that_share_l2_are_taken_together),
        cmocka_unit_test(test_tiling__causal__rows_are_cut_from_the_end),
        cmocka_unit_test(test_tiling__small_last_section__a_third_of_the_row_blocks_at_the_end),
        cmocka_unit_test(test_tiling__lengths__count_tiles),
        cmocka_unit_test(test_tiling__few_rows__the_heads_of_a_group_share_a_tile),
        cmocka_unit_test(test_shared__of_small__warpgroups_by_themselves),
        cmocka_unit_test(test_tiling__of_small__a_block_a_tile),
        cmocka_unit_test(test_answers__of_small__through_the_maps),
        cmocka_unit_test(test_tiling__nothing_to_do__nothing_launched),
        cmocka_unit_test(test_tiling__too_many_tiles__refused),
        cmocka_unit_test(test_maps__packed_heads__rows_of_a_group_lie_together),
        cmocka_unit_test(test_maps__strides_never_stepped_along__do_not_matter),
        cmocka_unit_test(test_maps__driver_refuses__its_words),
        cmocka_unit_test(test_encode__what_no_map_may_have__refused),
        cmocka_unit_test(test_refusal__head_dimensions__of_another_row),
        cmocka_unit_test(test_refusal__strides__that_maps_do_not_take),
        cmocka_unit_test(test_refusal__pages__that_no_copy_fits),
        cmocka_unit_test(test_answers__shapes_and_masks__through_the_maps),
        cmocka_unit_test(test_tiling__of_split__parts_fill_the_gpu),
        cmocka_unit_test(test_tiling__of_split__one_part_for_float32),
        cmocka_unit_test(test_answers__of_split__through_the_maps),
        cmocka_unit_test(test_answers__of_split__in_float32),
        cmocka_unit_test(test_answers__strides__of_any_order),
        cmocka_unit_test(test_answers__lengths__of_packed_sequences),
        cmocka_unit_test(test_answers__pages__smaller_and_larger_than_a_tile),
        cmocka_unit_test(test_shared__with_a_bias__instead_of_a_second_q_and_a_third_v),
        cmocka_unit_test(test_bias__broadcast__sizes_of_one),
        cmocka_unit_test(test_run__bias_not_aligned__named),
        cmocka_unit_test(test_run__driver_calls__few),
        cmocka_unit_test(test_run__a_call_fails__its_name),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
