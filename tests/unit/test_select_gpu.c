/* test_select_gpu.c: which GPU kernel runs a problem, and why the others are refused. No GPU is
 * needed: the selector sees one through its limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/cuda/alignment.h"
#include "core/device_kind.h"
#include "core/select.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

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

/* The role of the row that is chosen, "" if there is none. */
static const char *role_for(const att_limits *limits, const att_problem *p) {
    const att_kernel_row *row = att_select_find(limits, &att_operation_attention, p);
    return row ? att_row_role(row) : "";
}

static void refused_by(const att_limits *limits, const att_problem *p, const char *kernel,
                       const char *field, const char *word) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        att_refusal refusal;
        if (strcmp(row->id, kernel) != 0)
            continue;
        assert_false(att_row_serves(row, limits, &att_operation_attention, p, &refusal));
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
            const att_kernel_row *row = att_select_find(&limits, &att_operation_attention, &p);
            assert_non_null(row);
            assert_string_equal(att_row_role(row), "plain");
            assert_int_equal(row->cuda->dtype, dtypes[t]);
            assert_true(row->cuda->d_qk >= d && row->cuda->d_v >= d);
            for (size_t i = 0; i < att_registry_count(); i++) {
                const att_kernel_row *other = att_registry_row(i);
                att_refusal refusal;
                if (other->cuda && other->cuda->role == ATT_ROLE_PLAIN &&
                    att_row_serves(other, &limits, &att_operation_attention, &p, &refusal))
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
    const att_kernel_row *row = att_select_find(&limits, &att_operation_attention, &p);
    assert_true(row && row->cuda->d_qk == 192 && row->cuda->d_v == 128);
    p = problem(128, 3000, 64, 64, ATT_F16); /* 8 blocks for 100 SMs */
    assert_string_equal(role_for(&limits, &p), "small");
}

static void test_gpu__rung__only_where_slow_is_allowed(void **state) {
    (void)state;
    static const att_dtype dtypes[] = {ATT_F32, ATT_F16, ATT_BF16};
    for (int t = 0; t < 3; t++) {
        const att_problem p = problem(300, 300, 64, 64, dtypes[t]);
        att_limits limits = limits_of(90, 227, false, "naive_sm80");
        const att_kernel_row *row;
        assert_fails(att_select(&row, &limits, &att_operation_attention, &p), ATT_E_UNSUPPORTED,
                     "flags", "ATT_ALLOW_SLOW");
        limits = limits_of(90, 227, true, "naive_sm80");
        assert_string_equal(role_for(&limits, &p), "rung");
        limits = hopper(true); /* allowed, not preferred */
        assert_string_not_equal(role_for(&limits, &p), "rung");
    }
}

/* On every GPU that has code, with any amount of shared memory. */
static void test_gpu__f32__on_tensor_cores_with_every_feature(void **state) {
    (void)state;
    static const int gpus[][2] = {{80, 163}, {86, 99}, {89, 99}, {90, 227}};
    const att_limits large = hopper(false);
    const att_problem few = problem(100, 3000, 64, 64, ATT_F32);
    assert_string_equal(role_for(&large, &few), "small");
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        const att_limits limits = limits_of(gpus[i][0], gpus[i][1], false, "");
        for (int64_t d = 1; d <= 256; d++) {
            att_problem p = problem(3000, 3000, d, d, ATT_F32);
            const att_kernel_row *row = att_select_find(&limits, &att_operation_attention, &p);
            assert_true(row && row->cuda->dtype == ATT_F32);
            assert_string_equal(att_row_role(row),
                                d % 8 == 0 && d <= 128 ? "plain" : "general");
            p.features = ATT_ALIBI | ATT_SINKS;
            p.softcap = 20.0f;
            p.dtype_o = ATT_BF16;
            assert_string_equal(role_for(&limits, &p), "general");
        }
    }
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
            assert_false(att_row_serves(row, &limits, &att_operation_attention, &p, &refusal));
        if (row->cuda && row->family->operation == &att_operation_attention &&
            att_role_helps(row->cuda->role)) {
            assert_false(att_row_serves(row, &limits, &att_operation_attention, &p, &refusal));
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
        const att_kernel_row *found = att_select_find(&limits, &att_operation_attention, &p);
        assert_true(!found || found == row);
    }
}

static void test_gpu__explain__rows_of_the_device_alone(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    const att_problem p = problem(300, 300, 64, 64, ATT_F16);
    char text[ATT_EXPLAIN_MAX];
    att_select_explain(&limits, &att_operation_attention, &p, "detail", text, sizeof text);
    assert_true(strlen(text) < sizeof text - 1);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        char word[96];
        snprintf(word, sizeof word, " %s ", row->id);
        assert_int_equal(strstr(text, word) != NULL,
                         row->device == ATT_DEVICE_CUDA &&
                             row->family->operation == &att_operation_attention);
    }
    assert_non_null(strstr(text, "detail"));
}

/* A GPU uses the rows of its own architecture; a newer one those whose shared memory fits. */
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

/* Every row that a GPU context may use is chosen for some problem when it is forced. */
static void test_gpu__each_kernel__serves_some_problem(void **state) {
    (void)state;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (!row->cuda || att_role_helps(row->cuda->role) ||
            row->family->operation != &att_operation_attention)
            continue;
        att_limits limits = limits_of(90, 227, true, row->id);
        limits.allow_unattested = true;
        if (!(row->cuda->targets & ATT_SM90))
            continue;
        const int64_t rows = row->cuda->role == ATT_ROLE_DECODE ? 1 : 64;
        const int64_t keys = row->cuda->role == ATT_ROLE_SPLIT ? 1000 : 64;
        att_problem p = problem(rows, keys, row->cuda->d_qk, row->cuda->d_v,
                                row->cuda->dtype ? row->cuda->dtype : ATT_F16);
        if (row->cuda->features & ATT_FEATURE_ALIBI)
            p.features |= ATT_ALIBI;
        if (row->cuda->features & ATT_FEATURE_SOFTCAP)
            p.softcap = 30.0f;
        if (row->cuda->features & ATT_FEATURE_PAGES) {
            p.features |= ATT_PAGED;
            p.page_size = 16;
            p.num_pages = 100;
            att_problem_layout_bshd(&p);
        }
        if (row->cuda->features & ATT_FEATURE_BIAS) {
            p.features |= ATT_BIAS;
            p.bias_dtype = p.dtype;
            p.bias = (att_strides){0, 0, 64, 1};
        }
        if (row->cuda->features & ATT_FEATURE_MASK) {
            p.features |= ATT_BIAS;
            p.bias_dtype = ATT_BOOL8;
        }
        assert_true(att_row_available(row, &limits));
        if (att_select_find(&limits, &att_operation_attention, &p) != row)
            fail_msg("%s serves nothing", row->id);
    }
}

static void test_gpu__unattested__refused_without_leave(void **state) {
    (void)state;
    att_limits limits = hopper(false);
    const att_problem p = problem(512, 512, 64, 64, ATT_F16);
    att_kernel_row row = *att_select_find(&limits, &att_operation_attention, &p);
    att_refusal refusal;
    assert_true(att_row_serves(&row, &limits, &att_operation_attention, &p, &refusal));
    row.unattested = true;
    assert_false(att_row_serves(&row, &limits, &att_operation_attention, &p, &refusal));
    assert_string_equal(refusal.field, "flags");
    assert_non_null(strstr(refusal.why, "ATT_ALLOW_UNATTESTED"));
    limits.allow_unattested = true;
    assert_true(att_row_serves(&row, &limits, &att_operation_attention, &p, &refusal));
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
    const att_cuda_kernel kernel = hopper_row(role);
    const att_kernel_row row = gpu_row_of(&kernel);
    att_refusal refusal = {.step = 0};
    const bool serves = att_row_serves(&row, limits, &att_operation_attention, p, &refusal);
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
    p.page_size = 20;
    assert_hopper(ATT_ROLE_PLAIN, &limits, &p, "page_size", "multiple of 8");
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

static const att_kernel_row *find(const att_limits *limits, const att_problem *p) {
    return att_select_find(limits, &att_operation_attention, p);
}

/* A row with features supports exactly these. */
static void test_hopper__features_compiled_in__exactly_these(void **state) {
    (void)state;
    const att_limits limits = hopper(false);
    const att_kernel_row *alibi = gpu_row_named("fwd_sm90_bf16_d128_alibi_m192n80s3"),
                         *softcap = gpu_row_named("fwd_sm90_bf16_d128_softcap_m192n80s3");
    const att_problem good = problem(3000, 3000, 128, 128, ATT_BF16);
    refused_by(&limits, &good, alibi->id, "features", "is for problems with ALiBi");
    refused_by(&limits, &good, softcap->id, "softcap", "is for problems with softcap");
    att_problem p = good;
    p.features = ATT_ALIBI | ATT_SINKS;
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    assert_ptr_equal(find(&limits, &p), alibi);
    p.scale = 0.0f;
    refused_by(&limits, &p, alibi->id, "scale", "above 0");
    p = good;
    p.softcap = 30.0f;
    assert_ptr_equal(find(&limits, &p), softcap);
    refused_by(&limits, &p, alibi->id, "softcap", "has no softcap");
    p.softcap = 1e9f; /* float32 does not hold the polynomial */
    refused_by(&limits, &p, softcap->id, "softcap", "range");
    p.softcap = 30.0f;
    p.features = ATT_ALIBI; /* both: the general row */
    p.align = ATT_ALIGN_TOP_LEFT;
    refused_by(&limits, &p, alibi->id, "softcap", "has no softcap");
    refused_by(&limits, &p, softcap->id, "features", "has no ALiBi");
    assert_string_equal(find(&limits, &p)->id, "fwd_sm90_bf16_d128_general_m128n64s2");
    const char *bias = "fwd_sm90_bf16_d128_bias_m128n96s2";
    p = good;
    p.features = ATT_BIAS;
    p.bias_dtype = ATT_BF16;
    p.bias = (att_strides){0, 3000 * 3000, 3000, 1};
    assert_string_equal(find(&limits, &p)->id, bias);
    p.bias.row = 0; /* the same for all rows */
    assert_string_equal(find(&limits, &p)->id, bias);
    p.bias.row = 3001;
    refused_by(&limits, &p, bias, "bias", "16 bytes");
    p.bias.row = INT64_MAX; /* in bytes past int64 */
    refused_by(&limits, &p, bias, "bias", "too large");
    p.bias = (att_strides){0, 0, 3000 * 8, 8};
    refused_by(&limits, &p, bias, "bias", "contiguous keys");
    p.bias = (att_strides){0, 0, 3000, 1};
    p.bias_dtype = ATT_F32;
    refused_by(&limits, &p, bias, "bias", "type of Q");
    p.bias_dtype = ATT_BOOL8;
    refused_by(&limits, &p, bias, "features", "is for problems with bias");
    refused_by(&limits, &p, alibi->id, "features", "ALiBi");
    refused_by(&limits, &p, "fwd_sm90_bf16_d128_m192n80s3", "features", "boolean mask");
    assert_string_equal(find(&limits, &p)->id, "fwd_sm90_bf16_d128_mask_m128n128s2");
    refused_by(&limits, &good, find(&limits, &p)->id, "features",
               "is for problems with boolean mask");
    refused_by(&limits, &p, "mask_sm90", "role", "reads masks for other kernels");
    p.softcap = 30.0f;
    assert_string_equal(find(&limits, &p)->id, "fwd_sm90_bf16_d128_general_m128n64s2");
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

/* `row` is chosen, and `other` also supports the problem but is passed over: what explain says
 * about it. */
static void assert_sooner(const att_limits *limits, const att_problem *p,
                          const att_kernel_row *row, const att_kernel_row *other) {
    att_refusal refusal;
    char text[ATT_EXPLAIN_MAX], line[160];
    const att_kernel_row *found = find(limits, p);
    if (found != row)
        fail_msg("%s is chosen, not %s", found ? found->id : "nothing", row->id);
    assert_true(att_row_serves(other, limits, &att_operation_attention, p, &refusal));
    assert_string_equal(refusal.field, "");
    att_select_explain(limits, &att_operation_attention, p, "so", text, sizeof text);
    snprintf(line, sizeof line, "chosen   %-32s so\n", row->id);
    assert_non_null(strstr(text, line));
    snprintf(line, sizeof line,
             "passed   %-32s serves it too, but is not expected to be faster\n", other->id);
    if (!strstr(text, line))
        fail_msg("no line \"%s\" in\n%s", line, text);
}

/* Of Hopper's tiles the fastest is chosen; one that is requested by name runs whatever it
 * can. */
static void test_hopper__tiles__by_what_ends_soonest(void **state) {
    (void)state;
    const att_kernel_row *small = gpu_row_named("fwd_sm90_small_bf16_d128_m64n64s2w8"),
                         *large = gpu_row_named("fwd_sm90_bf16_d128_m128n128s2");
    att_limits limits = hopper(false);
    const att_problem few = problem(128, 500, 128, 128, ATT_BF16);
    const att_problem many = problem(30000, 500, 128, 128, ATT_BF16);
    assert_sooner(&limits, &few, small, large);
    assert_sooner(&limits, &many, large, small);
    const att_kernel_row *const rows[] = {small, large};
    for (int i = 0; i < 2; i++) {
        snprintf(limits.kernel, sizeof limits.kernel, "%s", rows[i]->id);
        assert_ptr_equal(find(&limits, &few), rows[i]);
        assert_ptr_equal(find(&limits, &many), rows[i]);
    }
    limits.kernel[0] = '\0';
    att_problem paged = few;
    paged.features = ATT_PAGED;
    paged.page_size = 64;
    paged.num_pages = 100;
    refused_by(&limits, &paged, small->id, "features", "pages");
    assert_ptr_equal(find(&limits, &paged), large); /* of those that take pages the soonest */
}

/* Rows that would leave most SMs idle in their last round use larger tiles, if these support
 * their inputs. */
static void test_hopper__rounds__tiles_that_end_them_sooner(void **state) {
    (void)state;
    const att_kernel_row *wide = gpu_row_named("fwd_sm90_bf16_d128_m192n80s3"),
                         *usual = gpu_row_named("fwd_sm90_bf16_d128_m128n128s2"),
                         *d96 = gpu_row_named("fwd_sm90_bf16_d96_m128n128s2");
    const att_limits limits = hopper(false);
    att_problem two_rounds = problem(2200, 2200, 128, 128, ATT_BF16); /* of 100 SMs; 8 heads */
    const att_problem one_round = problem(1500, 2200, 128, 128, ATT_BF16);
    assert_sooner(&limits, &two_rounds, wide, usual);
    assert_sooner(&limits, &one_round, usual, wide);

    const att_problem narrow = problem(1500, 2200, 96, 96, ATT_BF16); /* has a row of its own */
    assert_sooner(&limits, &narrow, d96, wide);

    two_rounds.features = ATT_PAGED;
    two_rounds.num_pages = 1000;
    two_rounds.page_size = 12; /* of no use to the copy engine */
    refused_by(&limits, &two_rounds, wide->id, "page_size", "multiple of 8");
    refused_by(&limits, &two_rounds, usual->id, "page_size", "multiple of 8");
    two_rounds.page_size = 16;
    assert_sooner(&limits, &two_rounds, wide, usual);
    att_problem long_prompt = problem(16384, 16384, 128, 128, ATT_BF16);
    long_prompt.causal = ATT_CAUSAL_TOP_LEFT;
    assert_sooner(&limits, &long_prompt, wide, usual);
    long_prompt.features = ATT_PAGED;
    long_prompt.num_pages = 1000;
    long_prompt.page_size =
        64; /* copies of 64 rows for tiles of 128 keys, of 16 for tiles of 80 */
    assert_sooner(&limits, &long_prompt, usual, wide);
}

/* Keys are processed in whole tiles: few keys go to small tiles. */
static void test_hopper__few_keys__tiles_that_they_fill(void **state) {
    (void)state;
    const att_kernel_row *n64 = gpu_row_named("fwd_sm90_small_bf16_d64_m64n64s4w8"),
                         *n128 = gpu_row_named("fwd_sm90_small_bf16_d64_m64n128s2w8");
    const att_limits limits = hopper(false);
    for (int64_t keys = 1; keys <= 512; keys += 7) {
        const att_problem p = problem(100, keys, 64, 64, ATT_BF16);
        assert_sooner(&limits, &p, keys <= 64 ? n64 : n128, keys <= 64 ? n128 : n64);
    }
}

/* Of the tiles for Ampere, small ones if large ones would leave SMs idle: fewer than 3 blocks
 * of 128 rows per 2 SMs. */
static void test_ampere__small_tiles__where_large_ones_leave_sms_idle(void **state) {
    (void)state;
    const att_kernel_row *small = gpu_row_named("fwd_sm80_f16_d64_m64n128s2"),
                         *large = gpu_row_named("fwd_sm80_f16_d64_m128n64s2");
    const att_limits limits = ampere();                      /* 100 SMs */
    att_problem p = problem(18 * 128, 500, 64, 64, ATT_F16); /* 8 x 18 blocks */
    assert_sooner(&limits, &p, small, large);
    p = problem(18 * 128 + 1, 500, 64, 64, ATT_F16); /* 8 x 19 */
    assert_sooner(&limits, &p, large, small);
}

/* No other GPU guarantees its instructions, not even newer ones. */
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
    use_fake_nvrtc(); /* variants that are compiled when needed */
    use_fake_cublas();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu__plain_problem__plain_kernel_of_the_least_width),
        cmocka_unit_test(test_gpu__roles__by_rows_and_features),
        cmocka_unit_test(test_gpu__rung__only_where_slow_is_allowed),
        cmocka_unit_test(test_gpu__f32__on_tensor_cores_with_every_feature),
        cmocka_unit_test(test_gpu__features__refused_by_plain_with_their_field),
        cmocka_unit_test(test_gpu__rungs__refused_without_leave),
        cmocka_unit_test(test_gpu__counts_past_32_bits__refused_by_their_field),
        cmocka_unit_test(test_gpu__forced_kernel__the_only_one),
        cmocka_unit_test(test_gpu__explain__rows_of_the_device_alone),
        cmocka_unit_test(test_gpu__architectures__their_targets),
        cmocka_unit_test(test_gpu__each_kernel__serves_some_problem),
        cmocka_unit_test(test_gpu__unattested__refused_without_leave),
        cmocka_unit_test(test_hopper__features__by_role),
        cmocka_unit_test(test_hopper__features_compiled_in__exactly_these),
        cmocka_unit_test(test_hopper__layouts__that_the_copy_engine_takes),
        cmocka_unit_test(test_hopper__tiles__by_what_ends_soonest),
        cmocka_unit_test(test_hopper__rounds__tiles_that_end_them_sooner),
        cmocka_unit_test(test_hopper__other_gpus__refused),
        cmocka_unit_test(test_hopper__few_keys__tiles_that_they_fill),
        cmocka_unit_test(test_ampere__small_tiles__where_large_ones_leave_sms_idle),
        cmocka_unit_test(test_alignment__bases_and_strides__their_common_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
