/* test_user_rows.c: rows files: what is read, what is refused and with which message, which
 * problems a row is for, and how contexts get them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attention/traits.h"
#include "base/alloc.h"
#include "base/sha256.h"
#include "core/select.h"
#include "core/switches.h"
#include "cuda/embed.h"
#include "cuda/jit.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"
#include "tests/support/rng.h"

#define HEAD "attest-rows 1\n"
#define BASE "fwd_sm80_f16_d64_m128n64s2"
#define GPU  "gpu = Fake GPU 0\ncc = 90\nsms = 132\n"
#define SCOPE                                                                                  \
    "batch = 1..4\nheads_q = 8\nheads_kv = 8\nseq_q = 1..512\nseq_k = 512\nd_qk = 64\n"        \
    "d_v = 64\ncausal = none\n"
#define ROW_WITH(id, more)                                                                     \
    "[row]\nid = " id "\nbase = " BASE "\ntile = m64n32s3w2\n" GPU SCOPE more
#define ROW ROW_WITH("user_a", "")

/* The beginning of a row, up to what needs a base. */
#define BASED "[row]\nbase = " BASE "\n"

static fake_cuda *fake;
static fake_nvrtc *compiler;

static att_user_rows *read_rows(const char *text) {
    att_user_rows *rows;
    assert_ok(att_user_rows_read(&rows, text, "my.rows", "rows_file"));
    assert_non_null(rows);
    return rows;
}

static void test_rows__a_whole_row__every_column(void **state) {
    (void)state;
    att_user_rows *rows = read_rows(HEAD "# mine\n\n" ROW_WITH(
        "user_a", "off = SWIZZLE, LDMATRIX\nwith = window softcap\nspills = allowed\n"
                  "date = 2026-11-15\nverdict = FASTER by 3 %\r\n"));
    assert_int_equal(rows->count, 1);
    const att_kernel_row *row = &rows->list[0].row;
    const att_cuda_kernel *k = row->cuda;
    assert_string_equal(row->id, "user_a");
    assert_string_equal(k->id, "user_a");
    assert_string_equal(k->source, "fwd_sm80");
    assert_int_equal(k->role, ATT_ROLE_PLAIN);
    assert_int_equal(k->dtype, ATT_F16);
    assert_int_equal(k->tile_m, 64);
    assert_int_equal(k->tile_n, 32);
    assert_int_equal(k->stages, 3);
    assert_int_equal(k->warps, 2);
    assert_string_equal(k->defines, " -DUSE_LDMATRIX=0 -DUSE_SWIZZLE=0");
    assert_true(k->may_spill);
    assert_string_equal(row->summary,
                        "a user's row: " BASE " at m64n32s3w2 without LDMATRIX, SWIZZLE; "
                        "tuned 2026-11-15");
    static const att_range sizes[] = {{1, 4},     {8, 8},   {8, 8},  {1, 512},
                                      {512, 512}, {64, 64}, {64, 64}};
    assert_int_equal(row->family->operation->size_count, sizeof sizes / sizeof sizes[0]);
    assert_memory_equal(row->scope->sizes, sizes, sizeof sizes);
    assert_int_equal(row->scope->mode, ATT_CAUSAL_NONE);
    assert_int_equal(row->scope->traits, ATT_TRAIT_WINDOW | ATT_TRAIT_SOFTCAP);
    att_free(rows);
    rows = read_rows(HEAD); /* none is fine */
    assert_int_equal(rows->count, 0);
    att_free(rows);
}

typedef struct bad {
    const char *text, *words; /* "LINE: FIELD: why" or a part of it */
} bad;

static void test_rows__bad_text__file_line_and_field(void **state) {
    (void)state;
    static const bad cases[] = {
        {"", NULL},
        {"attest-rows 2\n", ":1: a rows file begins with the line 'attest-rows 1'"},
        {"[row]\n", ":1: a rows file begins"},
        {HEAD "tile = m64n64s2w4\n", ":2: tile: comes before the first [row]"},
        {HEAD "row\n", ":2: 'row' is neither [row] nor NAME = VALUE"},
        {HEAD "[row]\ncolour = red\n", ":3: there is no field 'colour'"},
        {HEAD "[row]\nid = user_a\nid = user_b\n", ":4: id: is given twice"},
        {HEAD "[row]\nid =\n", ":3: id: has no value"},
        {HEAD "[row]\nid = mine\n", ":3: id: 'mine' is not user_"},
        {HEAD "[row]\nid = user_\n", ":3: id:"},
        {HEAD "[row]\nid = user_A\n", ":3: id:"},
        {HEAD "[row]\nid = user_a;b\n", ":3: id:"},
        {HEAD
         "[row]\nid = user_1234567890123456789012345678901234567890123456789012345678901\n",
         ":3: id:"},
        {HEAD "[row]\nbase = fwd_none\n", ":3: base: there is no GPU kernel 'fwd_none'"},
        {HEAD "[row]\nbase = fwd_cpu_avx2\n", ":3: base: there is no GPU kernel"},
        {HEAD "[row]\nbase = naive_sm80\n", ":3: base: naive_sm80 cannot be varied"},
        {HEAD "[row]\nbase = combine_sm80_d128\n", ":3: base:"},
        {HEAD "[row]\ntile = 64x64\n", ":3: tile: '64x64' is not of the form"},
        {HEAD "[row]\ntile = m64n64s2w4x\n", ":3: tile:"},
        {HEAD "[row]\ntile = m64n64s2w\n", ":3: tile:"},
        {HEAD "[row]\ntile = m999999n64s2w4\n", ":3: tile:"},
        {HEAD BASED "tile = m64n64s2w3\n", ":4: tile: 3 warps"},
        {HEAD BASED "tile = m256n64s2w16\n", ":4: tile: 16 warps"},
        {HEAD BASED "tile = m64n64s0w4\n", ":4: tile: 0 stages"},
        {HEAD BASED "tile = m64n64s9w4\n", ":4: tile: 9 stages"},
        {HEAD BASED "tile = m32n64s2w4\n", ":4: tile: m32 is not"},
        {HEAD BASED "tile = m0n64s2w4\n", ":4: tile: m0"},
        {HEAD BASED "tile = m64n24s2w4\n", ":4: tile: n24 is not"},
        {HEAD BASED "tile = m128n16s2w8\n", ":4: tile: n16 is not"},
        {HEAD "[row]\ntile = m128n128s2w12\nbase = " BASE "\n", ":4: tile: 12 warps"},
        {HEAD "[row]\ntile = m0n64s2w4\nbase = " BASE "\n", ":4: tile: m0"},
        {HEAD "[row]\ntile = m64n64s2w4\nbase = fwd_sm90_f16_d64_m128n128s4\n",
         ":4: tile: 4 warps: m64 has 8"},
        {HEAD "[row]\noff = SWIZZLE\n", ":3: off: comes before base"},
        {HEAD "[row]\nbase = " BASE "\noff = SPEED\n", ":4: off: fwd_sm80.cu has no switch"},
        {HEAD "[row]\nbase = " BASE "\noff = SWIZZLE SWIZZLE\n", ":4: off: SWIZZLE is named"},
        {HEAD "[row]\nwith = window\n", ":3: with: comes before base"},
        {HEAD BASED "with = magic\n", ":4: with: no problem has 'magic'"},
        {HEAD "[row]\ngpu = 1234567890123456789012345678901234567890123456789012345678901234\n",
         ":3: gpu: is longer"},
        {HEAD "[row]\ncc = 7.5\n", ":3: cc: '7.5' is not a whole number from 80"},
        {HEAD "[row]\ncc = 75\n", ":3: cc:"},
        {HEAD "[row]\nsms = -1\n", ":3: sms:"},
        {HEAD BASED "batch = 4..1\n", ":4: batch: '4..1' is neither"},
        {HEAD BASED "seq_q = 1..\n", ":4: seq_q:"},
        {HEAD BASED "seq_k = ..4\n", ":4: seq_k:"},
        {HEAD BASED "d_qk = 99999999999999999999\n", ":4: d_qk:"},
        {HEAD BASED "d_v = 4294967296\n", ":4: d_v:"},
        {HEAD BASED "heads_q = 8x\n", ":4: heads_q:"},
        {HEAD BASED "heads_kv = 0x8\n", ":4: heads_kv:"},
        {HEAD BASED "causal = yes\n", ":4: causal: 'yes' is none of"},
        {HEAD "[row]\nbatch = 4\n", ":3: batch: comes before base"},
        {HEAD "[row]\ncausal = none\n", ":3: causal: comes before base"},
        {HEAD "batch = 4\n", ":2: batch: comes before the first [row]"},
        {HEAD BASED "batch = 4\nbatch = 4\n", ":5: batch: is given twice"},
        {HEAD BASED "causal = none\ncausal = none\n", ":5: causal: is given twice"},
        {HEAD BASED "seq_k =\n", ":4: seq_k: has no value"},
        {HEAD "[row]\nid = user_a\nbase = " BASE "\ntile = m64n32s3w2\n" GPU "batch = 1\n",
         ":2: the row has no heads_q"},
        {HEAD "[row]\nid = user_a\nbase = " BASE "\ntile = m64n32s3w2\n" GPU
              "batch = 1\nheads_q = 1\nheads_kv = 1\nseq_q = 1\nseq_k = 1\nd_qk = 8\n"
              "d_v = 8\n",
         ":2: the row has no causal"},
        {HEAD "[row]\nsource = abc\n", ":3: source: is not the 64"},
        {HEAD "[row]\nspills = no\n", ":3: spills:"},
        {HEAD "[row]\nverdict = a\001b\n", ":3: verdict: has a control"},
        {HEAD "\n[row]\nid = user_a\n", ":3: the row has no base"},
        {HEAD ROW "[row]\n", "the row has no id"},
        {HEAD ROW ROW, ":17: there are two rows user_a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_user_rows *rows;
        const att_status status =
            att_user_rows_read(&rows, cases[i].text, "my.rows", "rows_file");
        if (!cases[i].words) {
            assert_int_equal(status, ATT_OK);
            att_free(rows);
            continue;
        }
        assert_null(rows);
        check_failure(cases[i].text, status, ATT_E_ARG, "rows_file", cases[i].words, __FILE__,
                      __LINE__);
        assert_non_null(strstr(att_last_error()->text, "my.rows:"));
    }
}

static void test_rows__too_much__refused(void **state) {
    (void)state;
    att_user_rows *rows;
    char *text = calloc(1, ATT_USER_TEXT_MAX + 2);
    strcpy(text, HEAD);
    memset(text + strlen(HEAD), 'x', 600);
    assert_fails(att_user_rows_read(&rows, text, "f", "rows"), ATT_E_ARG, "rows",
                 "f:2: the line is longer than 511");
    memset(text, '\n', ATT_USER_TEXT_MAX + 1);
    assert_fails(att_user_rows_read(&rows, text, "f", "rows"), ATT_E_ARG, "rows",
                 "is longer than");
    memset(text, 0, ATT_USER_TEXT_MAX + 1);
    strcpy(text, HEAD);
    for (int i = 0; i <= ATT_USER_ROWS_MAX; i++)
        sprintf(text + strlen(text), ROW_WITH("user_a%d", ""), i);
    assert_fails(att_user_rows_read(&rows, text, "f", "rows"), ATT_E_ARG, "rows",
                 "more than 128 rows");
    free(text);
    att_alloc_fail_after(0);
    assert_fails(att_user_rows_read(&rows, HEAD ROW, "f", "rows"), ATT_E_MEMORY, "", "f");
    att_alloc_fail_after(-1);
}

/* For any text: rows, or ATT_E_ARG with a line; nothing else, and nothing is leaked. */
static void read_anything(const char *text) {
    att_user_rows *rows;
    const att_status status = att_user_rows_read(&rows, text, "f", "rows");
    if (status == ATT_OK) {
        for (size_t i = 0; i < rows->count; i++) {
            const att_cuda_kernel *k = rows->list[i].row.cuda;
            assert_true(k->tile_m > 0 && k->tile_m % (16 * k->warps) == 0);
            assert_true(k->tile_n > 0 && k->tile_n % 16 == 0);
            assert_true(strncmp(k->id, "user_", 5) == 0 && strlen(k->id) < 64);
        }
        att_free(rows);
        return;
    }
    assert_int_equal(status, ATT_E_ARG);
    assert_true(strncmp(att_last_error()->text, "f:", 2) == 0);
}

static void test_rows__mangled_text__never_more_than_an_error(void **state) {
    (void)state;
    static const char whole[] = HEAD ROW_WITH(
        "user_a", "off = SWIZZLE,PREFETCH\nwith = paged\n"
                  "source = 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n")
        ROW_WITH("user_b", "spills = allowed\nproblem = b1h8s512d64\n");
    const long live = att_alloc_live();
    char text[sizeof whole + 8];
    for (size_t cut = 0; cut < sizeof whole; cut++) {
        memcpy(text, whole, cut);
        text[cut] = '\0';
        read_anything(text);
    }
    uint64_t r = 7;
    for (int round = 0; round < 4000; round++) {
        static const char letters[] = "\n\n =[]#.,0919mnswuser_\t\r\x7f\xff%";
        strcpy(text, whole);
        for (uint64_t edits = 1 + rng_next(&r) % 4; edits > 0; edits--) {
            const size_t at = rng_next(&r) % (sizeof whole - 1);
            text[at] = letters[rng_next(&r) % (sizeof letters - 1)];
        }
        read_anything(text);
    }
    assert_int_equal(att_alloc_live(), live);
}

/* ------------------------------------------------------------------------- where it serves */

static att_cuda_limits gpu;

static att_limits limits_with(const att_user_rows *rows) {
    gpu = (att_cuda_limits){
        .name = "Fake GPU 0", .cc = 90, .sms = 132, .shared_per_block = 232448};
    return (att_limits){.device = ATT_DEVICE_CUDA, .gpu = &gpu, .user = rows};
}

static att_problem problem_of(int64_t seq_q) {
    att_problem p;
    att_problem_init(&p, 2, 8, 8, seq_q, 512, 64, 64, ATT_F16);
    return p;
}

static void refused_by(const att_user_rows *rows, const att_problem *p, const char *field,
                       const char *word) {
    const att_limits limits = limits_with(rows);
    att_refusal refusal;
    assert_false(
        att_row_serves(&rows->list[0].row, &limits, &att_operation_attention, p, &refusal));
    assert_string_equal(refusal.field, field);
    if (!strstr(refusal.why, word))
        fail_msg("\"%s\" does not say \"%s\"", refusal.why, word);
    assert_string_not_equal(att_select_find(&limits, &att_operation_attention, p)->id,
                            "user_a");
}

static void test_scope__its_problem__comes_first(void **state) {
    (void)state;
    att_user_rows *rows = read_rows(HEAD ROW);
    const att_limits limits = limits_with(rows);
    att_problem p = problem_of(512);
    assert_string_equal(att_select_find(&limits, &att_operation_attention, &p)->id, "user_a");
    assert_int_equal(att_rows_count(&limits), att_registry_count() + 1);
    assert_ptr_equal(att_rows_at(&limits, 1), att_registry_row(0));
    assert_true(att_row_available(&rows->list[0].row, &limits));
    p.features |= ATT_LSE; /* changes no path */
    assert_string_equal(att_select_find(&limits, &att_operation_attention, &p)->id, "user_a");
    char text[ATT_EXPLAIN_MAX];
    att_select_explain(&limits, &att_operation_attention, &p, "so", text, sizeof text);
    assert_int_equal(strncmp(text, "chosen   user_a ", 16), 0);
    att_free(rows);
}

/* Built-in rows are expected to be faster, by the estimate that applies to the row's own
 * base. */
static void test_scope__its_problem__never_outranked(void **state) {
    (void)state;
    static const struct {
        const char *text, *base;
    } cases[] = {
        {HEAD "[row]\nid = user_a\nbase = fwd_sm90_f16_d64_m256n64s4\ntile = m256n64s4w20\n" GPU
             SCOPE,
         "fwd_sm90_f16_d64_m256n64s4"},
        {HEAD ROW, BASE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_user_rows *rows = read_rows(cases[i].text);
        att_limits limits = limits_with(rows);
        const att_problem p = problem_of(128); /* few rows: small tiles end sooner */
        const att_kernel_row *base = gpu_row_named(cases[i].base);
        assert_ptr_equal(rows->list[0].row.family, base->family);
        assert_string_equal(att_select_find(&limits, &att_operation_attention, &p)->id,
                            "user_a");
        char text[ATT_EXPLAIN_MAX], line[160];
        att_select_explain(&limits, &att_operation_attention, &p, "so", text, sizeof text);
        snprintf(line, sizeof line,
                 "passed   %-32s serves it too, but is listed after the chosen one\n",
                 base->id);
        assert_non_null(strstr(text, line));
        limits.user = NULL; /* without it another one than the base is chosen */
        assert_ptr_not_equal(att_select_find(&limits, &att_operation_attention, &p), base);
        att_free(rows);
    }
}

static void test_scope__another_problem__refused_by_field(void **state) {
    (void)state;
    att_user_rows *rows = read_rows(HEAD ROW);
    att_problem p = problem_of(513);
    refused_by(rows, &p, "seq_q", "seq_q=513 is not in the 1..512");
    p = problem_of(512);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    refused_by(rows, &p, "causal", "for causal none, not top-left");
    p = problem_of(512);
    p.window_left = 5;
    refused_by(rows, &p, "features", "without window");
    p = problem_of(512);
    p.window_right = 5;
    refused_by(rows, &p, "features", "without window");
    p = problem_of(512);
    p.softcap = 1.0f;
    refused_by(rows, &p, "features", "without softcap");
    p = problem_of(512);
    p.features |= ATT_LENS_K;
    refused_by(rows, &p, "features", "without lens_k");
    p = problem_of(512);
    p.dtype_o = ATT_F32;
    refused_by(rows, &p, "features", "without o_type");
    p = problem_of(512);
    p.alignment = 2;
    refused_by(rows, &p, "features", "without unaligned");
    p = problem_of(512);
    p.dtype = p.dtype_o = ATT_BF16; /* what the base asks for holds too */
    refused_by(rows, &p, "dtype", "is for f16");
    att_free(rows);
    rows = read_rows(HEAD ROW_WITH("user_a", "with = lens_k\n"));
    p = problem_of(512);
    refused_by(rows, &p, "features", "with lens_k");
    att_free(rows);
}

static void test_scope__another_gpu_or_source__refused(void **state) {
    (void)state;
    char digest[ATT_SHA256_HEX], text[4096];
    const att_problem p = problem_of(512);
    att_user_rows *rows = read_rows(HEAD ROW);
    att_limits limits = limits_with(rows);
    const att_kernel_row *row = &rows->list[0].row;
    att_refusal refusal;
    for (int i = 0; i < 3; i++) {
        limits = limits_with(rows);
        if (i == 0)
            snprintf(gpu.name, sizeof gpu.name, "Fake GPU 1");
        gpu.sms -= i == 1;
        gpu.cc = i == 2 ? 80 : 90;
        assert_false(att_row_serves(row, &limits, &att_operation_attention, &p, &refusal));
        assert_string_equal(refusal.field, "device");
        assert_false(att_row_available(row, &limits));
    }
    att_free(rows);
    assert_true(att_jit_source_digest(digest, "fwd_sm80"));
    assert_false(att_jit_source_digest(text, "absent"));
    snprintf(text, sizeof text, HEAD "%ssource = %s\n", ROW, digest);
    rows = read_rows(text);
    assert_false(rows->list[0].scope.stale);
    att_free(rows);
    digest[0] = digest[0] == '0' ? '1' : '0';
    snprintf(text, sizeof text, HEAD "%ssource = %s\n", ROW, digest);
    rows = read_rows(text);
    refused_by(rows, &p, "source", "tune again");
    att_free(rows);
}

static void test_scope__too_much_shared_memory__refused(void **state) {
    (void)state;
    att_user_rows *rows =
        read_rows(HEAD "[row]\nid = user_a\nbase = " BASE "\ntile = m256n256s8w4\n" GPU SCOPE);
    const att_problem p = problem_of(512);
    refused_by(rows, &p, "device", "bytes of shared memory");
    att_free(rows);
}

static void test_select__nothing_serves__nearest_is_built_in(void **state) {
    (void)state;
    att_user_rows *rows = read_rows(HEAD ROW);
    const att_limits limits = limits_with(rows);
    att_problem p = problem_of(512);
    p.seq_k = INT64_C(1) << 33; /* past what any kernel counts */
    const att_kernel_row *row;
    assert_int_equal(att_select(&row, &limits, &att_operation_attention, &p),
                     ATT_E_UNSUPPORTED);
    assert_null(strstr(att_last_error()->text, "user_a"));
    att_free(rows);
}

/* The list, the defaults and the kernel name the same switches. */
static void test_switches__list_and_source__agree(void **state) {
    (void)state;
    const att_embedded_text *defaults = att_embedded_text_find("kernels/switches.cuh");
    assert_non_null(defaults);
    const size_t count = att_switch_count(gpu_family_of("fwd_sm80"));
    assert_true(count > 0 && count <= ATT_SWITCHES_MAX);
    assert_int_equal(att_switch_count(gpu_family_of("naive")), 0);
    for (size_t i = 0; i < count; i++) {
        char line[128], use[64];
        const char *name = att_switch_of(gpu_family_of("fwd_sm80"), i)->name;
        snprintf(line, sizeof line, "#ifndef USE_%s\n#define USE_%s 1\n#endif\n", name, name);
        if (!strstr(defaults->text, line))
            fail_msg("switches.cuh does not turn %s on", name);
        bool used = false;
        snprintf(use, sizeof use, "USE_%s", name);
        for (const att_embedded_text *text = att_embedded_texts; text->name; text++)
            used = used || (text != defaults && strstr(text->text, use));
        if (!used)
            fail_msg("nothing uses %s", use);
    }
    size_t lines = 0;
    for (const char *at = defaults->text; (at = strstr(at, "#ifndef USE_")); at++)
        lines++;
    assert_int_equal(lines, count);
}

/* ------------------------------------------------------------------------------- contexts */

static att_status create(att_context **ctx, const att_context_options *given) {
    att_context_options o = *given;
    o.size = sizeof o;
    o.device = ATT_DEVICE_CUDA;
    o.cache_dir = "";
    return att_context_create(ctx, &o);
}

static const char *chosen(const att_context_options *o) {
    static char id[64];
    att_context *ctx;
    att_plan *plan;
    const att_problem p = problem_of(512);
    assert_ok(create(&ctx, o));
    assert_ok(att_plan_create(&plan, ctx, &p));
    snprintf(id, sizeof id, "%s", att_plan_kernel(plan));
    att_plan_destroy(plan);
    att_context_destroy(ctx);
    return id;
}

static void test_context__rows_as_text__compiled_and_listed(void **state) {
    (void)state;
    const att_context_options o = {.rows = HEAD ROW_WITH("user_a", "off = SWIZZLE\n")};
    const long live = att_alloc_live();
    assert_string_equal(chosen(&o), "user_a");
    assert_non_null(strstr(compiler->options, "-DKERNEL=user_a "));
    assert_non_null(strstr(compiler->options, "-DTILE_M=64 -DTILE_N=32 -DSTAGES=3 -DWARPS=2"));
    assert_non_null(strstr(compiler->options, "-DUSE_SWIZZLE=0"));
    att_context *ctx;
    assert_ok(create(&ctx, &o));
    att_kernel_info info = {.size = sizeof info};
    assert_int_equal(att_context_kernel_count(ctx), att_kernel_count() + 1);
    assert_ok(att_kernel_query(ctx, att_kernel_count(), &info));
    assert_string_equal(info.id, "user_a");
    assert_true(info.user && info.available && info.tile_m == 64);
    assert_int_equal(info.origin, ATT_FROM_SOURCE);
    assert_ok(att_kernel_query(ctx, 0, &info));
    assert_false(info.user);
    assert_fails(att_kernel_query(ctx, att_kernel_count() + 1, &info), ATT_E_ARG, "i",
                 "kernels");
    att_context_destroy(ctx);
    assert_int_equal(att_context_kernel_count(NULL), 0);
    assert_true(att_alloc_live() <= live + 2); /* functions live as long as the process */
}

static void test_context__kernel_by_name__the_users_too(void **state) {
    (void)state;
    const att_context_options own = {.rows = HEAD ROW, .kernel = "user_*"};
    assert_string_equal(chosen(&own), "user_a");
    const att_context_options built_in = {.rows = HEAD ROW, .kernel = BASE};
    assert_string_equal(chosen(&built_in), BASE);
    att_context *ctx;
    const att_context_options none = {.rows = "", .kernel = "user_*"};
    assert_fails(create(&ctx, &none), ATT_E_ARG, "kernel", "no such kernel");
    const att_context_options absent = {.rows = HEAD ROW, .kernel = "user_b"};
    const long live = att_alloc_live();
    assert_fails(create(&ctx, &absent), ATT_E_ARG, "kernel", "no such kernel");
    assert_int_equal(att_alloc_live(), live);
}

static void write_text(const char *path, const char *text, size_t bytes) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void test_context__rows_in_files__by_option_environment_and_config(void **state) {
    (void)state;
    char folder[] = "/tmp/attest_rows_XXXXXX", file[64], config[64], own[80];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/my.rows", folder);
    snprintf(config, sizeof config, "%s/attest", folder);
    snprintf(own, sizeof own, "%s/rows", config);
    write_text(file, HEAD ROW, sizeof HEAD ROW - 1);
    const att_context_options named = {.rows_file = file}, plain = {.rows = NULL},
                              none = {.rows_file = ""};
    assert_string_equal(chosen(&named), "user_a");
    assert_string_not_equal(chosen(&plain), "user_a");
    setenv("ATTEST_ROWS", file, 1);
    assert_string_equal(chosen(&plain), "user_a");
    assert_string_not_equal(chosen(&none), "user_a");
    setenv("ATTEST_ROWS", "", 1);
    setenv("XDG_CONFIG_HOME", folder, 1);
    assert_int_equal(mkdir(config, 0700), 0);
    write_text(own, HEAD ROW, sizeof HEAD ROW - 1);
    assert_string_not_equal(chosen(&plain), "user_a");
    unsetenv("ATTEST_ROWS");
    assert_string_equal(chosen(&plain), "user_a");
    setenv("HOME", folder, 1);
    unsetenv("XDG_CONFIG_HOME");
    assert_string_not_equal(chosen(&plain), "user_a"); /* ~/.config is not there */
    assert_int_equal(unlink(own), 0);
    setenv("XDG_CONFIG_HOME", folder, 1);
    assert_string_not_equal(chosen(&plain), "user_a");

    att_context *ctx;
    write_text(file, "attest-rows 1\n[row]\nid = a\n", 27);
    assert_fails(create(&ctx, &named), ATT_E_ARG, "rows_file", "my.rows:3: id:");
    setenv("ATTEST_ROWS", file, 1);
    assert_fails(create(&ctx, &plain), ATT_E_ARG, "ATTEST_ROWS", "my.rows:3: id:");
    write_text(file, "attest-rows 1\n\0[row]\n", 21);
    assert_fails(create(&ctx, &named), ATT_E_ARG, "rows_file", "is not text");
    assert_int_equal(truncate(file, ATT_USER_TEXT_MAX + 1), 0);
    assert_fails(create(&ctx, &named), ATT_E_ARG, "rows_file", "longer than");
    const att_context_options directory = {.rows_file = folder};
    assert_fails(create(&ctx, &directory), ATT_E_ARG, "rows_file", "not a regular file");
    assert_int_equal(unlink(file), 0);
    assert_fails(create(&ctx, &named), ATT_E_ARG, "rows_file", "No such file");
    assert_fails(create(&ctx, &plain), ATT_E_ARG, "ATTEST_ROWS", "No such file");
    setenv("ATTEST_ROWS", "", 1);
    assert_int_equal(rmdir(config), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_plan__over_budget__refused_by_name(void **state) {
    (void)state;
    const att_problem p = problem_of(512);
    att_context *ctx;
    att_plan *plan;
    const att_context_options o = {.rows = HEAD ROW_WITH("user_spills", "")};
    assert_ok(create(&ctx, &o));
    fake->local_bytes = 40;
    assert_fails(att_plan_create(&plan, ctx, &p), ATT_E_UNSUPPORTED, "registers",
                 "user_spills: 40 bytes per thread spill");
    att_context_destroy(ctx);
    const att_context_options leave = {.rows = HEAD ROW_WITH("user_may", "spills = allowed\n")};
    assert_string_equal(chosen(&leave), "user_may");
    fake->local_bytes = 0;
    fake->max_threads = 32;
    const att_context_options wide = {.rows = HEAD ROW_WITH("user_wide", "")};
    assert_ok(create(&ctx, &wide));
    assert_fails(att_plan_create(&plan, ctx, &p), ATT_E_UNSUPPORTED, "warps",
                 "user_wide: a block of 64 threads");
    fake->max_threads = 0;
    att_context_destroy(ctx);
}

static int set_up(void **state) {
    (void)state;
    fake = use_fake_cuda();
    compiler = use_fake_nvrtc();
    setenv("ATTEST_ROWS", "", 1);
    return 0;
}

/* Kernels with specialised warpgroups need other tiles than those whose warps are alike. */
static void test_tile__of_hopper__warpgroups(void **state) {
    (void)state;
    const att_family *hopper = gpu_family_of("fwd_sm90"), *blocks = gpu_family_of("fwd_sm80");
    static const struct {
        int tile[4];
        const char *word; /* NULL: it fits */
    } cases[] = {
        {{128, 128, 2, 12}, NULL},         {{192, 80, 4, 16}, NULL},
        {{256, 64, 8, 20}, NULL},          {{128, 128, 2, 8}, "8 warps: m128 has 12"},
        {{96, 128, 2, 10}, "m96"},         {{320, 64, 2, 24}, "m320"},
        {{192, 80, 3, 16}, NULL},          {{128, 128, 1, 12}, "1 stages: expected 2 to 8"},
        {{128, 128, 16, 12}, "16 stages"}, {{128, 120, 2, 12}, "n120"},
        {{128, 144, 2, 12}, "n144"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[128] = "";
        const bool fits = hopper->tile_fits(cases[i].tile, why, sizeof why);
        if (fits != !cases[i].word || (cases[i].word && !strstr(why, cases[i].word)))
            fail_msg("tile %zu: %s", i, fits ? "fits" : why);
        if (!cases[i].word)
            assert_false(blocks->tile_fits(cases[i].tile, why, sizeof why));
    }
}

static void test_tile__of_small__warpgroups_share_the_keys_of_64_rows(void **state) {
    (void)state;
    const att_family *small = gpu_family_of("fwd_sm90_small");
    static const struct {
        int tile[4];
        const char *word; /* NULL: it fits */
    } cases[] = {{{64, 128, 1, 8}, NULL},
                 {{64, 64, 3, 16}, NULL},
                 {{128, 64, 4, 16}, NULL},
                 {{128, 64, 3, 8}, NULL},
                 {{192, 64, 2, 12}, "m192"},
                 {{0, 64, 2, 12}, "m0"},
                 {{64, 128, 1, 6}, "6 warps"},
                 {{64, 128, 1, 20}, "20 warps"},
                 {{128, 64, 3, 12}, "12 warps: expected 8 or 16 for m128"},
                 {{128, 64, 3, 4}, "4 warps"},
                 {{64, 128, 0, 8}, "0 stages: expected 1 to 8"},
                 {{128, 64, 2, 16}, "2 stages: expected 3 to 8"},
                 {{64, 40, 1, 8}, "n40"},
                 {{64, 144, 1, 8}, "n144"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[128] = "";
        const bool fits = small->tile_fits(cases[i].tile, why, sizeof why);
        if (fits != !cases[i].word || (cases[i].word && !strstr(why, cases[i].word)))
            fail_msg("tile %zu: %s", i, fits ? "fits" : why);
    }
}

/* A row with a base of gradients belongs to the backward operation; its tile must fit there. */
static void test_rows__of_backward__tile_and_scope(void **state) {
    (void)state;
    const att_family *blocks = gpu_family_of("bwd_sm80");
    char why[128] = "";
    assert_true(blocks->tile_fits((const int[4]){64, 128, 1, 4}, why, sizeof why));
    assert_false(blocks->tile_fits((const int[4]){128, 128, 2, 8}, why, sizeof why));
    assert_non_null(strstr(why, "16, 32 or 64 rows"));
    att_user_rows *rows =
        read_rows(HEAD "[row]\nid = user_b\nbase = bwd_sm80_bf16_d64_m64n128s2w4\n"
                       "tile = m64n128s1w4\noff = LATE_TURNS\n" GPU SCOPE "with = softcap\n");
    const att_kernel_row *row = &rows->list[0].row;
    assert_ptr_equal(row->family->operation, &att_operation_backward);
    assert_int_equal(row->cuda->stages, 1);
    att_free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows__of_backward__tile_and_scope),
        cmocka_unit_test(test_tile__of_hopper__warpgroups),
        cmocka_unit_test(test_tile__of_small__warpgroups_share_the_keys_of_64_rows),
        cmocka_unit_test(test_rows__a_whole_row__every_column),
        cmocka_unit_test(test_rows__bad_text__file_line_and_field),
        cmocka_unit_test(test_rows__too_much__refused),
        cmocka_unit_test(test_rows__mangled_text__never_more_than_an_error),
        cmocka_unit_test(test_scope__its_problem__comes_first),
        cmocka_unit_test(test_scope__its_problem__never_outranked),
        cmocka_unit_test(test_scope__another_problem__refused_by_field),
        cmocka_unit_test(test_scope__another_gpu_or_source__refused),
        cmocka_unit_test(test_scope__too_much_shared_memory__refused),
        cmocka_unit_test(test_select__nothing_serves__nearest_is_built_in),
        cmocka_unit_test(test_switches__list_and_source__agree),
        cmocka_unit_test(test_context__rows_as_text__compiled_and_listed),
        cmocka_unit_test(test_context__kernel_by_name__the_users_too),
        cmocka_unit_test(test_context__rows_in_files__by_option_environment_and_config),
        cmocka_unit_test(test_plan__over_budget__refused_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
