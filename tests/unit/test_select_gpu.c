/* test_select_gpu.c: which GPU kernel serves a problem, and what refuses the others. No GPU is needed: the
 * selector sees one through its limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/cuda/alignment.h"
#include "core/conditions.h"
#include "core/select.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static att_cuda_limits gpu;

static att_limits limits_of(int cc, int shared_kib, bool allow_slow, const char *kernel) {
    gpu = (att_cuda_limits){.cc = cc, .sms = 100, .shared_per_block = shared_kib << 10};
    att_limits limits = {.device = ATT_DEVICE_CUDA,
                         .gpu = &gpu,
                         .allow_slow = allow_slow,
                         .allow_unattested = cc != 90}; /* attested on sm_90 alone */
    snprintf(limits.kernel, sizeof limits.kernel, "%s", kernel);
    return limits;
}

static att_limits hopper(bool allow_slow) {
    return limits_of(90, 227, allow_slow, "");
}

static att_limits ampere(void) {
    return limits_of(80, 163, false, "");
}

static att_problem problem(int64_t seq_q, int64_t seq_k, int64_t d_qk, int64_t d_v,
                           att_dtype dtype) {
    att_problem p;
    att_problem_init(&p, 2, 4, 2, seq_q, seq_k, d_qk, d_v, dtype);
    return p;
}

/* The role of the row that serves, "" where none does. */
static const char *role_for(const att_limits *limits, const att_problem *p) {
    const att_kernel_row *row = att_select_find(limits, p);
    return row ? att_row_role(row) : "";
}

static void refused_by(const att_limits *limits, const att_problem *p, const char *kernel,
                       const char *field, const char *word) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        att_refusal refusal;
        if (strcmp(row->id, kernel) != 0)
            continue;
        assert_false(att_row_serves(row, limits, p, &refusal));
        assert_string_equal(refusal.field, field);
        if (!strstr(refusal.why, word))
            fail_msg("%s: \"%s\" does not say \"%s\"", kernel, refusal.why, word);
        return;
    }
    fail_msg("there is no kernel %s", kernel);
}

/* A plain row of fwd_sm80 for float16 and head dimensions of 64. */
static const char *plain_f16_d64(void) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *k = att_registry_row(i)->cuda;
        if (k && k->role == ATT_ROLE_PLAIN && k->dtype == ATT_F16 && k->d_qk == 64 &&
            k->d_v == 64 && strcmp(k->source, "fwd_sm80") == 0)
            return k->id;
    }
    return "";
}

static void test_gpu__plain_problem__plain_kernel_of_the_least_width(void **state) {
    (void)state;
    const att_limits limits = ampere();
    static const att_dtype dtypes[] = {ATT_F16, ATT_BF16};
    for (int t = 0; t < 2; t++)
        for (int64_t d = 32; d <= 128; d += 32) {
            const att_problem p = problem(30000, 300, d, d, dtypes[t]);
            const att_kernel_row *row = att_select_find(&limits, &p);
            assert_non_null(row);
            assert_string_equal(att_row_role(row), "plain");
            assert_int_equal(row->cuda->dtype, dtypes[t]);
            assert_true(row->cuda->d_qk >= d && row->cuda->d_v >= d);
            for (size_t i = 0; i < att_registry_count(); i++) {
                const att_kernel_row *other = att_registry_row(i);
                att_refusal refusal;
                if (other->cuda && other->cuda->role == ATT_ROLE_PLAIN &&
                    att_row_serves(other, &limits, &p, &refusal))
                    assert_true(other->cuda->d_qk >= row->cuda->d_qk);
            }
        }
}

static void test_gpu__roles__by_rows_and_features(void **state) {
    (void)state;
    const att_limits limits = ampere();
    static const att_dtype dtypes[] = {ATT_F16, ATT_BF16};
    for (int t = 0; t < 2; t++)
        for (int64_t d = 8; d <= 256; d += 8) {
            att_problem p = problem(1, 3000, d, d, dtypes[t]);
            assert_string_equal(role_for(&limits, &p), "decode");
            p = problem(3000, 3000, d, d, dtypes[t]);
            p.batch = 100;
            assert_string_equal(role_for(&limits, &p), "plain");
            p.softcap = 20.0f;
            assert_string_equal(role_for(&limits, &p), "general");
            p = problem(3000, 3000, d - 3, d, dtypes[t]);
            assert_string_equal(role_for(&limits, &p), "general");
            p = problem(3000, 3000, d, d, dtypes[t]);
            p.features = ATT_PAGED;
            p.page_size = 16;
            p.num_pages = 1000;
            assert_string_equal(role_for(&limits, &p), "general");
        }
    att_problem p = problem(3000, 3000, 192, 128, ATT_BF16);
    p.batch = 100;
    const att_kernel_row *row = att_select_find(&limits, &p);
    assert_true(row && row->cuda->d_qk == 192 && row->cuda->d_v == 128);
    p = problem(128, 3000, 64, 64, ATT_F16); /* 8 blocks for 100 SMs */
    assert_string_equal(role_for(&limits, &p), "small");
}

static void test_gpu__f32__only_where_slow_is_allowed(void **state) {
    (void)state;
    const att_problem p = problem(300, 300, 64, 64, ATT_F32);
    att_limits limits = hopper(false);
    const att_kernel_row *row;
    assert_fails(att_select(&row, &limits, &p), ATT_E_UNSUPPORTED, "flags", "ATT_ALLOW_SLOW");
    limits = hopper(true);
    assert_string_equal(role_for(&limits, &p), "rung");
}

/* What the plain kernels leave to others, one feature at a time. */
static void test_gpu__features__refused_by_plain_with_their_field(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    const char *plain = plain_f16_d64();
    const att_problem good = problem(300, 300, 64, 64, ATT_F16);
    att_problem p = good;
    p.softcap = 20.0f;
    refused_by(&limits, &p, plain, "softcap", "softcap");
    static const struct {
        uint32_t feature;
        const char *word;
    } features[] = {
        {ATT_ALIBI, "ALiBi"}, {ATT_BIAS, "bias"}, {ATT_SINKS, "sinks"}, {ATT_PAGED, "pages"}};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        p = good;
        p.features = features[i].feature;
        refused_by(&limits, &p, plain, "features", features[i].word);
    }
    p = good;
    p.dtype_o = ATT_F32;
    refused_by(&limits, &p, plain, "dtype_o", "f32");
    p = problem(300, 300, 60, 64, ATT_F16);
    refused_by(&limits, &p, plain, "d_qk", "60");
    p = problem(300, 300, 64, 60, ATT_F16);
    refused_by(&limits, &p, plain, "d_v", "60");
    p = good;
    p.alignment = 8;
    refused_by(&limits, &p, plain, "alignment", "8 bytes");
    p = good;
    p.k.row += 2;
    refused_by(&limits, &p, plain, "k", "4 bytes");
    p = good;
    p.dtype = p.dtype_o = ATT_BF16;
    refused_by(&limits, &p, plain, "dtype", "f16, not bf16");
    p = problem(300, 300, 72, 64, ATT_F16);
    refused_by(&limits, &p, plain, "d_qk", "72");
    p = problem(300, 300, 64, 72, ATT_F16);
    refused_by(&limits, &p, plain, "d_v", "72");
}

static void test_gpu__rungs__refused_without_leave(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    const att_problem p = problem(300, 300, 64, 64, ATT_F16);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        att_refusal refusal;
        if (row->cuda && row->cuda->role == ATT_ROLE_RUNG)
            assert_false(att_row_serves(row, &limits, &p, &refusal));
        if (row->cuda && row->cuda->role == ATT_ROLE_COMBINE) {
            assert_false(att_row_serves(row, &limits, &p, &refusal));
            assert_string_equal(refusal.field, "role");
        }
    }
}

static void test_gpu__counts_past_32_bits__refused_by_their_field(void **state) {
    (void)state;
    const att_limits limits = hopper(true);
    const char *plain = plain_f16_d64();
    const int64_t much = (int64_t)1 << 31;
    att_problem p = problem(much, 300, 64, 64, ATT_F16);
    refused_by(&limits, &p, plain, "seq_q", "32 bits");
    p = problem(300, much, 64, 64, ATT_F16);
    refused_by(&limits, &p, plain, "seq_k", "32 bits");
    p = problem(3, 3, 64, 64, ATT_F16);
    p.batch = much;
    refused_by(&limits, &p, plain, "batch", "32 bits");
    p = problem(3, 3, 64, 64, ATT_F16);
    p.batch = 1 << 20;
    p.heads_q = 1 << 12;
    refused_by(&limits, &p, plain, "batch", "heads_q");
}

static void test_gpu__forced_kernel__the_only_one(void **state) {
    (void)state;
    const att_problem p = problem(300, 300, 64, 64, ATT_F16);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (!row->cuda)
            continue;
        const att_limits limits = limits_of(90, 227, true, row->id);
        const att_kernel_row *found = att_select_find(&limits, &p);
        assert_true(!found || found == row);
    }
}

static void test_gpu__explain__rows_of_the_device_alone(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    const att_problem p = problem(300, 300, 64, 64, ATT_F16);
    char text[ATT_EXPLAIN_MAX];
    att_select_explain(&limits, &p, "detail", text, sizeof text);
    assert_true(strlen(text) < sizeof text - 1);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        char word[96];
        snprintf(word, sizeof word, " %s ", row->id);
        assert_int_equal(strstr(text, word) != NULL, row->device == ATT_DEVICE_CUDA);
    }
    assert_non_null(strstr(text, "detail"));
}

/* A GPU takes the rows of its own architecture; a newer one those whose shared memory it has. */
static void test_gpu__architectures__their_targets(void **state) {
    (void)state;
    static const struct {
        int cc, shared_kib;
        uint32_t target;
    } gpus[] = {
        {80, 163, ATT_SM80}, {86, 99, ATT_SM86},   {87, 163, ATT_SM80}, {89, 99, ATT_SM89},
        {90, 227, ATT_SM90}, {100, 227, ATT_SM80}, {120, 99, ATT_SM89},
    };
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        const att_limits limits = limits_of(gpus[i].cc, gpus[i].shared_kib, true, "");
        assert_int_equal(att_cuda_target_of(limits.gpu), gpus[i].target);
    }
}

/* Every row that a GPU context may use is chosen for something when it is forced. */
static void test_gpu__each_kernel__serves_some_problem(void **state) {
    (void)state;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (!row->cuda || row->cuda->role == ATT_ROLE_COMBINE)
            continue;
        att_limits limits = limits_of(90, 227, true, row->id);
        limits.allow_unattested = true;
        if (!(row->cuda->targets & ATT_SM90))
            continue;
        const int64_t rows = row->cuda->role == ATT_ROLE_DECODE ? 1 : 64;
        const att_problem p = problem(rows, 64, row->cuda->d_qk, row->cuda->d_v,
                                      row->cuda->dtype ? row->cuda->dtype : ATT_F16);
        assert_true(att_row_available(row, &limits));
        if (att_select_find(&limits, &p) != row)
            fail_msg("%s serves nothing", row->id);
    }
}

static void test_gpu__unattested__refused_without_leave(void **state) {
    (void)state;
    att_limits limits = hopper(false);
    const att_problem p = problem(512, 512, 64, 64, ATT_F16);
    att_kernel_row row = *att_select_find(&limits, &p);
    att_refusal refusal;
    assert_true(att_row_serves(&row, &limits, &p, &refusal));
    row.unattested = true;
    assert_false(att_row_serves(&row, &limits, &p, &refusal));
    assert_string_equal(refusal.field, "flags");
    assert_non_null(strstr(refusal.why, "ATT_ALLOW_UNATTESTED"));
    limits.allow_unattested = true;
    assert_true(att_row_serves(&row, &limits, &p, &refusal));
}

static void test_alignment__bases_and_strides__their_common_power(void **state) {
    (void)state;
    att_problem p = problem(8, 8, 64, 64, ATT_F16);
    const char *field;
    assert_int_equal(att_cuda_row_alignment(&p, &field), 16);
    assert_null(field);
    assert_true(att_cuda_rows_aligned(&p));
    p.alignment = 4096;
    assert_int_equal(att_cuda_base_alignment(&p), 16);
    assert_true(att_cuda_rows_aligned(&p));
    p.alignment = 4;
    assert_int_equal(att_cuda_row_alignment(&p, &field), 4);
    assert_string_equal(field, "alignment");
    p = problem(8, 8, 64, 64, ATT_F16);
    p.o.head += 1;
    assert_int_equal(att_cuda_row_alignment(&p, &field), 2);
    assert_string_equal(field, "o");
    p = problem(8, 8, 64, 64,
                ATT_F16); /* a stride that is never stepped along does not count */
    p.batch = 1;
    p.q.batch = 3;
    assert_true(att_cuda_rows_aligned(&p));
    p.features = ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K;
    p.batch = 5;
    p.total_q = p.total_k = 20;
    p.q.batch = p.k.batch = p.v.batch = p.o.batch = 3;
    assert_true(att_cuda_rows_aligned(&p));
    p.features = ATT_PAGED;
    p.num_pages = 4;
    p.page_size = 16;
    assert_false(att_cuda_rows_aligned(&p));
}

/* A row of fwd_sm90, as it could stand in the registry. */
static att_cuda_kernel hopper_row(att_cuda_role role) {
    return (att_cuda_kernel){.id = "fwd_sm90_test",
                             .source = "fwd_sm90",
                             .targets = ATT_SM90,
                             .role = role,
                             .dtype = ATT_BF16,
                             .d_qk = 128,
                             .d_v = 128,
                             .tile_m = 128,
                             .tile_n = 128,
                             .stages = 2,
                             .warps = 12};
}

static void assert_hopper(att_cuda_role role, const att_limits *limits, const att_problem *p,
                          const char *field, const char *word) {
    const att_cuda_kernel row = hopper_row(role);
    att_refusal refusal = {.step = 0};
    const bool serves = att_cuda_row_serves(&row, limits, p, &refusal);
    if (serves != (*field == '\0') || strcmp(refusal.field, field) != 0 ||
        !strstr(refusal.why, word))
        fail_msg("wanted \"%s: %s\", got \"%s: %s\"", field, word, refusal.field, refusal.why);
}

static void test_hopper__features__by_role(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    const att_problem good = problem(3000, 3000, 128, 128, ATT_BF16);
    att_problem p = good;
    assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "", "");
    assert_hopper(ATT_ROLE_GENERAL, &limits, &p, "", "");
    p.features = ATT_SINKS | ATT_PAGED;
    p.page_size = 16;
    p.num_pages = 1000;
    assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "", "");
    p.page_size = 24;
    assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "page_size", "tiles of keys");
    p = good;
    p.softcap = 20.0f;
    assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "softcap", "has no");
    assert_hopper(ATT_ROLE_GENERAL, &limits, &p, "", "");
    p = good;
    p.features = ATT_BIAS;
    assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "features", "bias");
    assert_hopper(ATT_ROLE_GENERAL, &limits, &p, "", "");
    p = good;
    p.scale = -1.0f;
    assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "scale", "above 0");
    assert_hopper(ATT_ROLE_GENERAL, &limits, &p, "", "");
}

static void test_hopper__layouts__that_the_copy_engine_takes(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    const att_problem good = problem(3000, 3000, 128, 128, ATT_BF16);
    static const att_cuda_role roles[] = {ATT_ROLE_PLAIN, ATT_ROLE_GENERAL};
    for (int i = 0; i < 2; i++) {
        att_problem p = good;
        p.dtype_o = ATT_F32;
        assert_hopper(roles[i], &limits, &p, "dtype_o", "f32");
        p = good;
        p.k.row += 4;
        assert_hopper(roles[i], &limits, &p, "k", "8 bytes");
        p = good;
        p.v.head = 0;
        assert_hopper(roles[i], &limits, &p, "v", "stride");
        p = problem(3000, 3000, 64, 64, ATT_BF16);
        assert_hopper(roles[i], &limits, &p, "d_qk", "pad");
        p = problem(3000, 3000, 124, 128, ATT_BF16);
        assert_hopper(roles[i], &limits, &p, "d_qk", "124");
    }
}

/* Of Hopper's tiles the one that ends a problem soonest; one that is asked for by name serves whatever it can. */
static void test_hopper__tiles__by_what_ends_soonest(void **state) {
    (void)state;
    att_cuda_kernel small = hopper_row(ATT_ROLE_SMALL), large = hopper_row(ATT_ROLE_PLAIN);
    small.source = "fwd_sm90_small";
    small.tile_m = small.tile_n = 64;
    small.warps = 8;
    att_limits limits = hopper(false);
    const att_problem few = problem(128, 500, 128, 128, ATT_BF16);
    const att_problem many = problem(30000, 500, 128, 128, ATT_BF16);
    const struct {
        const att_cuda_kernel *kernel;
        const att_problem *p;
        bool serves;
    } cases[] = {{&small, &few, true},
                 {&large, &few, false},
                 {&small, &many, false},
                 {&large, &many, true}};
    for (int named = 0; named < 2; named++) {
        snprintf(limits.kernel, sizeof limits.kernel, "%s", named ? "fwd_sm90*" : "");
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            att_refusal refusal = {.step = 0};
            const bool serves =
                att_cuda_row_serves(cases[i].kernel, &limits, cases[i].p, &refusal);
            assert_int_equal(serves, named || cases[i].serves);
            if (!serves) {
                assert_string_equal(refusal.field, "seq_q");
                assert_non_null(strstr(refusal.why, "end sooner"));
            }
        }
    }
    att_problem paged = few;
    paged.features = ATT_PAGED;
    paged.page_size = 64;
    paged.num_pages = 100;
    att_refusal refusal = {.step = 0};
    assert_false(att_cuda_row_serves(&small, &limits, &paged, &refusal));
    assert_non_null(strstr(refusal.why, "pages"));
    limits.kernel[0] = '\0'; /* what does not take pages does not end them sooner */
    assert_true(att_cuda_row_serves(&large, &limits, &paged, &refusal));
}

/* Rows that would leave most SMs idle in their last round go into larger tiles, if these take what they read. */
static void test_hopper__rounds__tiles_that_end_them_sooner(void **state) {
    (void)state;
    att_cuda_kernel wide = hopper_row(ATT_ROLE_PLAIN), d96 = hopper_row(ATT_ROLE_PLAIN);
    const att_cuda_kernel usual = hopper_row(ATT_ROLE_PLAIN);
    wide.tile_m = 192;
    wide.tile_n = 80;
    wide.warps = 16;
    d96.d_qk = d96.d_v = 96;
    const att_limits limits = hopper(false);
    att_problem two_rounds = problem(2200, 2200, 128, 128, ATT_BF16); /* of 100 SMs; 8 heads */
    const att_problem one_round = problem(1500, 2200, 128, 128, ATT_BF16);
    att_refusal refusal = {.step = 0};
    assert_true(att_cuda_row_serves(&wide, &limits, &two_rounds, &refusal));
    assert_false(att_cuda_row_serves(&usual, &limits, &two_rounds, &refusal));
    assert_non_null(strstr(refusal.why, "192 rows x 80 keys"));
    assert_false(att_cuda_row_serves(&wide, &limits, &one_round, &refusal));
    assert_true(att_cuda_row_serves(&usual, &limits, &one_round, &refusal));

    const att_problem narrow = problem(2200, 2200, 96, 96, ATT_BF16); /* has a row of its own */
    assert_false(att_cuda_row_serves(&wide, &limits, &narrow, &refusal));
    assert_true(att_cuda_row_serves(&d96, &limits, &narrow, &refusal));

    two_rounds.features = ATT_PAGED;
    two_rounds.num_pages = 1000;
    two_rounds.page_size = 64; /* does not divide 80 */
    assert_false(att_cuda_row_serves(&wide, &limits, &two_rounds, &refusal));
    assert_true(att_cuda_row_serves(&usual, &limits, &two_rounds, &refusal));
    two_rounds.page_size = 16;
    assert_true(att_cuda_row_serves(&wide, &limits, &two_rounds, &refusal));
    assert_false(att_cuda_row_serves(&usual, &limits, &two_rounds, &refusal));
}

/* Keys are taken in whole tiles: few of them by the small ones. */
static void test_hopper__few_keys__tiles_that_they_fill(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    for (int64_t keys = 1; keys <= 512; keys += 7)
        for (int tile_n = 64; tile_n <= 128; tile_n += 64) {
            att_cuda_kernel small = hopper_row(ATT_ROLE_SMALL);
            small.source = "fwd_sm90_small";
            small.d_qk = small.d_v = small.tile_m = 64;
            small.tile_n = tile_n;
            small.warps = 8;
            const att_problem p = problem(100, keys, 64, 64, ATT_BF16);
            att_refusal refusal = {.step = 0};
            const bool serves = att_cuda_row_serves(&small, &limits, &p, &refusal);
            if (serves != ((keys <= 64) == (tile_n == 64)))
                fail_msg("%d keys in tiles of %d: %s", (int)keys, tile_n, refusal.why);
        }
}

/* Its instructions are promised by no other GPU, newer ones included. */
static void test_hopper__other_gpus__refused(void **state) {
    (void)state;
    const att_problem p = problem(3000, 3000, 128, 128, ATT_BF16);
    static const int others[] = {80, 89, 100, 103, 120};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const att_limits limits = limits_of(others[i], 227, true, "");
        assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "cc", "not written for");
    }
    const att_limits small = limits_of(90, 99, false, "");
    assert_hopper(ATT_ROLE_PLAIN, &small, &p, "device", "shared memory");
}

int main(void) {
    use_fake_nvrtc(); /* where the library has no machine code, some could be had */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu__plain_problem__plain_kernel_of_the_least_width),
        cmocka_unit_test(test_gpu__roles__by_rows_and_features),
        cmocka_unit_test(test_gpu__f32__only_where_slow_is_allowed),
        cmocka_unit_test(test_gpu__features__refused_by_plain_with_their_field),
        cmocka_unit_test(test_gpu__rungs__refused_without_leave),
        cmocka_unit_test(test_gpu__counts_past_32_bits__refused_by_their_field),
        cmocka_unit_test(test_gpu__forced_kernel__the_only_one),
        cmocka_unit_test(test_gpu__explain__rows_of_the_device_alone),
        cmocka_unit_test(test_gpu__architectures__their_targets),
        cmocka_unit_test(test_gpu__each_kernel__serves_some_problem),
        cmocka_unit_test(test_gpu__unattested__refused_without_leave),
        cmocka_unit_test(test_hopper__features__by_role),
        cmocka_unit_test(test_hopper__layouts__that_the_copy_engine_takes),
        cmocka_unit_test(test_hopper__tiles__by_what_ends_soonest),
        cmocka_unit_test(test_hopper__rounds__tiles_that_end_them_sooner),
        cmocka_unit_test(test_hopper__other_gpus__refused),
        cmocka_unit_test(test_hopper__few_keys__tiles_that_they_fill),
        cmocka_unit_test(test_alignment__bases_and_strides__their_common_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
