/* test_run_errors.c: every call that att_plan_run() must refuse, with the outputs untouched. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"

/* Pointers of att_args by buffer, with the feature of each (0: always present). */
static const struct {
    const char *field;
    size_t offset;
    uint32_t feature;
} POINTERS[BUF_COUNT] = {
    [BUF_Q] = {"q", offsetof(att_args, q), 0},
    [BUF_K] = {"k", offsetof(att_args, k), 0},
    [BUF_V] = {"v", offsetof(att_args, v), 0},
    [BUF_O] = {"o", offsetof(att_args, o), 0},
    [BUF_LSE] = {"lse", offsetof(att_args, lse), ATT_LSE},
    [BUF_ALIBI] = {"alibi", offsetof(att_args, alibi), ATT_ALIBI},
    [BUF_BIAS] = {"bias", offsetof(att_args, bias), ATT_BIAS},
    [BUF_SINKS] = {"sinks", offsetof(att_args, sinks), ATT_SINKS},
    [BUF_CU_Q] = {"cu_seqlens_q", offsetof(att_args, cu_seqlens_q), ATT_CU_SEQLENS_Q},
    [BUF_CU_K] = {"cu_seqlens_k", offsetof(att_args, cu_seqlens_k), ATT_CU_SEQLENS_K},
    [BUF_LENS_K] = {"lens_k", offsetof(att_args, lens_k), ATT_LENS_K},
    [BUF_STARTS_K] = {"starts_k", offsetof(att_args, starts_k), ATT_STARTS_K},
    [BUF_Q_OFFSETS] = {"q_offsets", offsetof(att_args, q_offsets), ATT_Q_OFFSETS},
    [BUF_K_OFFSETS] = {"k_offsets", offsetof(att_args, k_offsets), ATT_K_OFFSETS},
    [BUF_PAGES] = {"page_table", offsetof(att_args, page_table), ATT_PAGED},
};

/* Together these two name every feature; lens_k and cu_seqlens_k are alternatives. */
static const uint32_t FEATURE_SETS[] = {ATT_FEATURES_ALL & ~(uint32_t)ATT_LENS_K,
                                        ATT_FEATURES_ALL & ~(uint32_t)ATT_CU_SEQLENS_K};

static void *get_pointer(const att_args *args, int buffer) {
    void *pointer;
    memcpy(&pointer, (const char *)args + POINTERS[buffer].offset, sizeof pointer);
    return pointer;
}

static void set_pointer(att_args *args, int buffer, const void *pointer) {
    memcpy((char *)args + POINTERS[buffer].offset, &pointer, sizeof pointer);
}

/* A planned fixture, so that a test can run it repeatedly with other arguments. */
typedef struct planned {
    fixture f;
    att_plan *plan;
} planned;

static void plan_open(planned *p, att_context *ctx, const att_problem *problem) {
    fixture_open(&p->f, problem, 1);
    assert_ok(att_plan_create(&p->plan, ctx, problem));
    p->f.workspace = guard_open(att_plan_workspace(p->plan), ATT_WORKSPACE_ALIGN);
}

static void plan_close(planned *p) {
    att_plan_destroy(p->plan);
    fixture_close(&p->f);
}

static att_status plan_run(const planned *p, const att_args *args) {
    return att_plan_run(p->plan, args, p->f.workspace.bytes ? p->f.workspace.data : NULL, NULL);
}

/* Run with `args`, which must fail as given and change nothing. */
static void refuse(const planned *p, const att_args *args, att_status status,
                   const char *field) {
    assert_fails(plan_run(p, args), status, field, field);
    assert_true(fixture_poisoned(&p->f));
    fixture_assert_intact(&p->f);
}

/* The same after changing one 32-bit entry of an input, which is then restored. */
static void refuse_entry(const planned *p, int buffer, int64_t index, int32_t value,
                         const char *field) {
    int32_t *entry = (int32_t *)(void *)p->f.buf[buffer].data + index;
    const int32_t before = *entry;
    *entry = value;
    refuse(p, &p->f.args, ATT_E_DATA, field);
    *entry = before;
}

static void test_run__null_pointers__named(void **state) {
    const att_problem problem = problem_with(0, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    assert_fails(att_plan_run(NULL, &p.f.args, NULL, NULL), ATT_E_ARG, "plan", "plan");
    assert_fails(att_plan_run(p.plan, NULL, NULL, NULL), ATT_E_ARG, "args", "args");
    assert_true(fixture_poisoned(&p.f));
    plan_close(&p);
}

static void test_run__each_tensor_null__named(void **state) {
    for (size_t set = 0; set < 2; set++) {
        const att_problem problem = problem_with(FEATURE_SETS[set], ATT_F16);
        planned p;
        plan_open(&p, *state, &problem);
        for (int buffer = 0; buffer < BUF_COUNT; buffer++) {
            att_args args = p.f.args;
            if (!get_pointer(&args, buffer))
                continue;
            set_pointer(&args, buffer, NULL);
            refuse(&p, &args, ATT_E_ARG, POINTERS[buffer].field);
        }
        assert_ok(plan_run(&p, &p.f.args));
        plan_close(&p);
    }
}

static void test_run__each_pointer_without_its_feature__named(void **state) {
    const att_problem problem = problem_with(0, ATT_F32);
    static const float somewhere[64];
    planned p;
    plan_open(&p, *state, &problem);
    for (int buffer = 0; buffer < BUF_COUNT; buffer++) {
        if (!POINTERS[buffer].feature)
            continue;
        att_args args = p.f.args;
        set_pointer(&args, buffer, somewhere);
        refuse(&p, &args, ATT_E_ARG, POINTERS[buffer].field);
    }
    plan_close(&p);
}

static void test_run__each_base_misaligned__named(void **state) {
    for (size_t set = 0; set < 2; set++) {
        const att_problem problem = problem_with(FEATURE_SETS[set], ATT_F32);
        planned p;
        plan_open(&p, *state, &problem);
        for (int buffer = 0; buffer < BUF_COUNT; buffer++)
            for (int shift = 1; shift <= 3; shift++) {
                att_args args = p.f.args;
                char *base = get_pointer(&args, buffer);
                if (!base)
                    continue;
                set_pointer(&args, buffer, base - shift);
                refuse(&p, &args, ATT_E_ARG, POINTERS[buffer].field);
            }
        plan_close(&p);
    }
}

static void test_run__16_bit_base_off_by_one_byte__named(void **state) {
    const att_problem problem = problem_with(0, ATT_BF16);
    planned p;
    plan_open(&p, *state, &problem);
    for (int buffer = BUF_Q; buffer <= BUF_O; buffer++) {
        att_args args = p.f.args;
        set_pointer(&args, buffer, (const char *)get_pointer(&args, buffer) - 1);
        refuse(&p, &args, ATT_E_ARG, POINTERS[buffer].field);
    }
    plan_close(&p);
}

/* Guarded blocks are at arbitrary addresses, so an overlap is made by moving the output onto
 * the input. */
static void overlap(planned *p, int output, int input) {
    const guarded *block = &p->f.buf[input];
    const size_t size =
        output == BUF_LSE ? sizeof(float) : att_dtype_size(p->f.problem.dtype_o);
    const size_t out_bytes = p->f.buf[output].bytes;
    const size_t last = block->bytes / size * size - (block->bytes % size ? 0 : size);
    unsigned char *const bases[] = {
        block->data,                     /* the same start */
        block->data + last,              /* on its last element */
        block->data - (out_bytes - size) /* reaching its first element */
    };
    void *before = fixture_copy(&p->f, input);
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        if ((uintptr_t)bases[i] % size)
            continue;
        att_args args = p->f.args;
        set_pointer(&args, output, bases[i]);
        refuse(p, &args, ATT_E_ALIAS, POINTERS[output].field);
        assert_non_null(strstr(att_last_error()->text, POINTERS[input].field));
        assert_true(fixture_same(&p->f, input, before));
    }
    free(before);
}

static void test_run__output_overlaps_each_input__refused(void **state) {
    for (size_t set = 0; set < 2; set++) {
        const att_problem problem = problem_with(FEATURE_SETS[set], ATT_F32);
        planned p;
        plan_open(&p, *state, &problem);
        for (int input = 0; input < BUF_COUNT; input++) {
            if (input == BUF_O || input == BUF_LSE || !p.f.buf[input].map)
                continue;
            overlap(&p, BUF_O, input);
            overlap(&p, BUF_LSE, input);
        }
        plan_close(&p);
    }
}

static void test_run__outputs_overlap_each_other__refused(void **state) {
    const att_problem problem = problem_with(ATT_LSE, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    att_args args = p.f.args;
    args.lse = (float *)args.o + 3;
    assert_int_equal(plan_run(&p, &args), ATT_E_ALIAS);
    assert_true(fixture_poisoned(&p.f));
    plan_close(&p);
}

/* K and V may share memory with each other and with Q: only outputs must be separate. */
static void test_run__inputs_overlap_each_other__served(void **state) {
    att_problem problem;
    att_problem_init(&problem, 1, 2, 2, 4, 4, 8, 8, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    p.f.args.k = p.f.args.v = p.f.args.q;
    assert_ok(plan_run(&p, &p.f.args));
    assert_false(fixture_poisoned(&p.f));
    plan_close(&p);
}

/* O directly after Q in one buffer: adjacent, not overlapping. */
static void test_run__output_adjoins_input__served(void **state) {
    att_problem problem;
    att_problem_init(&problem, 1, 1, 1, 4, 4, 8, 8, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    guarded both = guard_open(2 * p.f.buf[BUF_Q].bytes, sizeof(float));
    memcpy(both.data, p.f.buf[BUF_Q].data, p.f.buf[BUF_Q].bytes);
    att_args args = p.f.args;
    args.q = both.data;
    args.o = both.data + p.f.buf[BUF_Q].bytes;
    assert_ok(plan_run(&p, &args));
    assert_memory_equal(both.data, p.f.buf[BUF_Q].data, p.f.buf[BUF_Q].bytes);
    guard_close(&both);
    plan_close(&p);
}

static void test_run__cu_seqlens_malformed__refused(void **state) {
    const att_problem problem =
        problem_with(ATT_LSE | ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem); /* 0 4 9 and 0 6 13; longest 5 and 7 */
    static const struct {
        int64_t index;
        int32_t q, k;
    } bad[] = {
        {0, 1, 1},                 /* does not start at 0 */
        {0, -1, -1},               /* starts before it */
        {1, -1, -1},               /* decreases */
        {1, 10, 14},               /* decreases after */
        {2, 10, 14},               /* past the end */
        {2, INT32_MAX, INT32_MAX}, /* far past it */
        {2, 3, 5},                 /* decreases at the end */
        {1, 6, 8},                 /* a sequence longer than seq_q, seq_k */
        {1, INT32_MIN, INT32_MIN}, /* a difference that overflows 32 bits */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse_entry(&p, BUF_CU_Q, bad[i].index, bad[i].q, "cu_seqlens_q");
        refuse_entry(&p, BUF_CU_K, bad[i].index, bad[i].k, "cu_seqlens_k");
    }
    assert_ok(plan_run(&p, &p.f.args));
    plan_close(&p);
}

/* Sequences that are not too long, but together have more rows than the problem. */
static void test_run__cu_seqlens_past_the_rows__total_named(void **state) {
    const att_problem problem = problem_with(ATT_CU_SEQLENS_Q, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    int32_t *cu = (int32_t *)(void *)p.f.buf[BUF_CU_Q].data;
    cu[1] = 5;
    cu[2] = 10;
    assert_fails(plan_run(&p, &p.f.args), ATT_E_DATA, "cu_seqlens_q", "total_q=9");
    plan_close(&p);
}

static void test_run__lens_k_out_of_range__refused(void **state) {
    const att_problem problem = problem_with(ATT_LENS_K, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    static const int32_t bad[] = {-1, 8, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int64_t b = 0; b < problem.batch; b++)
            refuse_entry(&p, BUF_LENS_K, b, bad[i], "lens_k");
    assert_ok(plan_run(&p, &p.f.args));
    plan_close(&p);
}

static void test_run__starts_k_out_of_range__refused(void **state) {
    const att_problem problem = problem_with(ATT_STARTS_K, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    static const int32_t bad[] = {-1, 8, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int64_t b = 0; b < problem.batch; b++)
            refuse_entry(&p, BUF_STARTS_K, b, bad[i], "starts_k");
    assert_ok(plan_run(&p, &p.f.args));
    plan_close(&p);
}

static void test_run__offset_below_0__refused(void **state) {
    const att_problem problem = problem_with(ATT_Q_OFFSETS | ATT_K_OFFSETS, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    static const int32_t bad[] = {-1, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int64_t b = 0; b < problem.batch; b++) {
            refuse_entry(&p, BUF_Q_OFFSETS, b, bad[i], "q_offsets");
            refuse_entry(&p, BUF_K_OFFSETS, b, bad[i], "k_offsets");
        }
    assert_ok(plan_run(&p, &p.f.args));
    plan_close(&p);
}

/* Programs that were built before starts_k was appended. */
static void test_run__args_of_0_1__without_starts(void **state) {
    const att_problem problem = problem_with(ATT_LENS_K, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    att_args args = p.f.args;
    args.size = offsetof(att_args, starts_k);
    args.starts_k = args.lens_k; /* past what the caller's struct has */
    assert_ok(plan_run(&p, &args));
    plan_close(&p);
}

static void test_run__page_id_out_of_range__refused(void **state) {
    const att_problem problem = problem_with(ATT_PAGED, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    const int32_t bad[] = {-1, (int32_t)problem.num_pages, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (int64_t b = 0; b < problem.batch; b++)
            for (int64_t column = 0; column < 2; column++)
                refuse_entry(&p, BUF_PAGES, b * problem.page_table_stride + column, bad[i],
                             "page_table");
    assert_ok(plan_run(&p, &p.f.args));
    plan_close(&p);
}

static void test_run__keys_in_a_cache_without_pages__refused(void **state) {
    att_problem problem = problem_with(ATT_PAGED, ATT_F32);
    problem.num_pages = 0;
    planned p;
    plan_open(&p, *state, &problem);
    refuse(&p, &p.f.args, ATT_E_DATA, "page_table");
    assert_non_null(strstr(att_last_error()->text, "num_pages=0"));
    plan_close(&p);
}

/* Entries past the used keys, and between one table and the next, are ignored. */
static void test_run__page_ids_that_no_key_uses__not_looked_at(void **state) {
    const att_problem problem = problem_with(ATT_PAGED | ATT_LENS_K | ATT_STARTS_K, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    int32_t *table = (int32_t *)(void *)p.f.buf[BUF_PAGES].data;
    int32_t *lens = (int32_t *)(void *)p.f.buf[BUF_LENS_K].data;
    int32_t *starts = (int32_t *)(void *)p.f.buf[BUF_STARTS_K].data;
    lens[0] = 4; /* one page of the two */
    table[1] = -7;
    table[2] = INT32_MAX; /* the gap before the second table */
    starts[1] = 4;
    table[3] = -7; /* the page before the second sequence's start */
    assert_ok(plan_run(&p, &p.f.args));
    lens[0] = 5;
    fixture_poison(&p.f);
    refuse(&p, &p.f.args, ATT_E_DATA, "page_table");
    starts[0] = 5; /* no key is in use */
    assert_ok(plan_run(&p, &p.f.args));
    starts[1] = 3;
    fixture_poison(&p.f);
    refuse(&p, &p.f.args, ATT_E_DATA, "page_table");
    plan_close(&p);
}

/* A problem that needs a workspace: the first of a few candidates for which this context asks
 * for one. */
static att_problem problem_with_workspace(att_context *ctx) {
    static const att_dtype dtypes[] = {ATT_BF16, ATT_F16, ATT_F32};
    static const int64_t rows[] = {64, 1, 256};
    for (size_t i = 0; i < 9; i++) {
        const att_problem p = problem_single(rows[i / 3], 2048, 64, dtypes[i % 3]);
        att_plan *plan;
        assert_ok(att_plan_create(&plan, ctx, &p));
        const size_t bytes = att_plan_workspace(plan);
        att_plan_destroy(plan);
        if (bytes)
            return p;
    }
    fail_msg("no problem needs a workspace");
    return problem_single(1, 1, 1, ATT_F32);
}

static void test_run__workspace_null_or_misaligned__refused(void **state) {
    const att_problem problem = problem_with_workspace(*state);
    planned p;
    plan_open(&p, *state, &problem);
    guarded room = guard_open(p.f.workspace.bytes + 64, ATT_WORKSPACE_ALIGN);
    assert_fails(att_plan_run(p.plan, &p.f.args, NULL, NULL), ATT_E_WORKSPACE, "workspace",
                 "NULL");
    static const size_t shifts[] = {1, 4, 16, 32, 63};
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++)
        assert_fails(att_plan_run(p.plan, &p.f.args, room.data + shifts[i], NULL),
                     ATT_E_WORKSPACE, "workspace", "64");
    assert_true(fixture_poisoned(&p.f));
    assert_ok(att_plan_run(p.plan, &p.f.args, room.data, NULL));
    guard_close(&room);
    plan_close(&p);
}

static void test_run__workspace_size_told__checked(void **state) {
    const att_problem problem = problem_with_workspace(*state);
    planned p;
    plan_open(&p, *state, &problem);
    const size_t needed = p.f.workspace.bytes;
    att_args args = p.f.args;
    static const size_t missing[] = {1, 64};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        args.workspace_size = needed - missing[i];
        refuse(&p, &args, ATT_E_WORKSPACE, "workspace_size");
    }
    for (size_t more = 0; more < 2; more++) {
        args.workspace_size = needed + more;
        assert_ok(att_plan_run(p.plan, &args, p.f.workspace.data, NULL));
    }
    plan_close(&p);
}

/* A workspace on top of a tensor would be read as one and written as the other. */
static void test_run__workspace_overlaps_a_tensor__refused(void **state) {
    const att_problem problem = problem_with_workspace(*state);
    planned p;
    plan_open(&p, *state, &problem);
    const size_t bytes = p.f.buf[BUF_O].bytes + p.f.workspace.bytes;
    guarded both = guard_open(bytes, ATT_WORKSPACE_ALIGN);
    att_args args = p.f.args;
    args.o = both.data;
    assert_int_equal(att_plan_run(p.plan, &args, both.data, NULL), ATT_E_ALIAS);
    guard_close(&both);
    plan_close(&p);
}

typedef struct newer_args {
    att_args known;
    void *added;
} newer_args;

static void test_run__struct_sizes__known_or_refused(void **state) {
    const att_problem problem = problem_with(0, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    newer_args newer = {.known = p.f.args};
    newer.known.size = sizeof newer;
    newer.added = &newer;
    assert_fails(plan_run(&p, &newer.known), ATT_E_STRUCT, "size", "does not know");
    assert_true(fixture_poisoned(&p.f));
    static const size_t sizes[] = {0, 1, sizeof(size_t), sizeof(att_args) - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        att_args args = p.f.args;
        args.size = sizes[i];
        refuse(&p, &args, ATT_E_STRUCT, "size");
    }
    newer.added = NULL;
    assert_ok(plan_run(&p, &newer.known));
    plan_close(&p);
}

static void test_run__stream_on_the_cpu__refused(void **state) {
    const att_problem problem = problem_with(0, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    int stream;
    assert_fails(att_plan_run(p.plan, &p.f.args, p.f.workspace.data, &stream), ATT_E_ARG,
                 "stream", "stream");
    assert_true(fixture_poisoned(&p.f));
    att_args args = p.f.args; /* the buffers are checked first */
    args.k = NULL;
    assert_fails(att_plan_run(p.plan, &args, p.f.workspace.data, &stream), ATT_E_ARG, "k",
                 "k is NULL");
    plan_close(&p);
}

static void test_run__nothing_to_do__ok_and_untouched(void **state) {
    for (int which = 0; which < 2; which++) {
        att_problem problem = problem_with(ATT_LSE, ATT_F32);
        if (which == 0)
            problem.batch = 0;
        else
            problem.seq_q = 0;
        planned p;
        plan_open(&p, *state, &problem);
        assert_ok(plan_run(&p, &p.f.args));
        fixture_assert_intact(&p.f);
        plan_close(&p);
    }
}

static void test_run__no_launch_record_wanted__served(void **state) {
    const att_problem problem = problem_with(0, ATT_F32);
    planned p;
    plan_open(&p, *state, &problem);
    p.f.args.launch = NULL;
    assert_ok(plan_run(&p, &p.f.args));
    assert_false(fixture_poisoned(&p.f));
    plan_close(&p);
}

/* Nothing to compute takes no time, however large the batch: a loop over it would hit the
 * alarm. */
static void test_run__no_rows_and_no_keys_in_a_huge_batch__at_once(void **state) {
    static const uint32_t features[] = {0, ATT_PAGED, ATT_PAGED | ATT_LSE};
    alarm(60);
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        att_problem p;
        att_problem_init(&p, INT64_C(1) << 40, 4, 2, 0, 0, 8, 8, ATT_F32);
        p.features = features[i];
        p.page_size = 16;
        att_problem_layout_bshd(&p);
        att_plan *plan;
        assert_ok(att_plan_create(&plan, *state, &p));
        guarded workspace = guard_open(att_plan_workspace(plan), ATT_WORKSPACE_ALIGN);
        const att_args args = {.size = sizeof args};
        assert_ok(att_plan_run(plan, &args, workspace.data, NULL));
        guard_close(&workspace);
        att_plan_destroy(plan);
    }
    alarm(0);
}

static int open_context(void **state) {
    *state = context_open(ATT_ISA_AUTO, 2);
    return 0;
}

static int close_context(void **state) {
    att_context_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run__null_pointers__named),
        cmocka_unit_test(test_run__each_tensor_null__named),
        cmocka_unit_test(test_run__each_pointer_without_its_feature__named),
        cmocka_unit_test(test_run__each_base_misaligned__named),
        cmocka_unit_test(test_run__16_bit_base_off_by_one_byte__named),
        cmocka_unit_test(test_run__output_overlaps_each_input__refused),
        cmocka_unit_test(test_run__outputs_overlap_each_other__refused),
        cmocka_unit_test(test_run__inputs_overlap_each_other__served),
        cmocka_unit_test(test_run__output_adjoins_input__served),
        cmocka_unit_test(test_run__cu_seqlens_malformed__refused),
        cmocka_unit_test(test_run__cu_seqlens_past_the_rows__total_named),
        cmocka_unit_test(test_run__lens_k_out_of_range__refused),
        cmocka_unit_test(test_run__starts_k_out_of_range__refused),
        cmocka_unit_test(test_run__offset_below_0__refused),
        cmocka_unit_test(test_run__args_of_0_1__without_starts),
        cmocka_unit_test(test_run__page_id_out_of_range__refused),
        cmocka_unit_test(test_run__keys_in_a_cache_without_pages__refused),
        cmocka_unit_test(test_run__page_ids_that_no_key_uses__not_looked_at),
        cmocka_unit_test(test_run__workspace_null_or_misaligned__refused),
        cmocka_unit_test(test_run__workspace_size_told__checked),
        cmocka_unit_test(test_run__workspace_overlaps_a_tensor__refused),
        cmocka_unit_test(test_run__struct_sizes__known_or_refused),
        cmocka_unit_test(test_run__stream_on_the_cpu__refused),
        cmocka_unit_test(test_run__nothing_to_do__ok_and_untouched),
        cmocka_unit_test(test_run__no_launch_record_wanted__served),
        cmocka_unit_test(test_run__no_rows_and_no_keys_in_a_huge_batch__at_once),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
