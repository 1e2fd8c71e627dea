/* test_attested.c: rows are attested per architecture: off on GPUs that nobody has certified,
 * with the remedy named. */
#include <stdlib.h>
#include <string.h>

#include "core/select.h"
#include "cuda/embed.h"
#include "lab/evidence/evidence.h"
#include "tests/support/check.h"
#include "tests/support/parsed.h"

static att_cuda_limits gpu;

static att_limits limits_of(int cc, bool allow_unattested) {
    gpu = (att_cuda_limits){
        .cc = cc, .sms = 100, .shared_per_block = (cc == 90 ? 227 : 99) * 1024};
    return (att_limits){
        .device = ATT_DEVICE_CUDA, .gpu = &gpu, .allow_unattested = allow_unattested};
}

static bool has_code(void) {
    return att_embedded_codes[0].id != NULL;
}

static void test_select__attested_architecture__serves(void **state) {
    (void)state;
    const lab_spec spec = parsed("b2h8s512d64,fp16");
    const att_limits limits = limits_of(90, false);
    const att_kernel_row *row;
    if (!has_code())
        skip();
    assert_ok(att_select(&row, &limits, &att_operation_attention, &spec.problem));
}

/* The same row, on a GPU without certified code. */
static void test_select__another_architecture__needs_leave_and_says_how(void **state) {
    (void)state;
    static const int capabilities[] = {80, 86, 89, 120};
    const lab_spec spec = parsed("b2h8s512d64,fp16");
    if (!has_code())
        skip();
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
        att_limits limits = limits_of(capabilities[i], false);
        const att_kernel_row *row;
        assert_int_equal(att_select(&row, &limits, &att_operation_attention, &spec.problem),
                         ATT_E_UNSUPPORTED);
        const att_error *error = att_last_error();
        assert_string_equal(error->field, "flags");
        assert_non_null(strstr(error->text, "has no evidence on compute capability"));
        assert_non_null(strstr(error->text, "attest certify"));
        assert_non_null(strstr(error->text, "ATTEST_ALLOW_UNATTESTED=1"));
        limits = limits_of(capabilities[i], true);
        assert_ok(att_select(&row, &limits, &att_operation_attention, &spec.problem));
        assert_true(att_row_unattested(row, &limits));
    }
}

/* No aarch64 machine has certified the kernels for NEON: plain C serves there unless unattested
 * kernels are allowed. Rows of x86-64's sets serve in neither case. */
static void test_select__neon__only_if_allowed(void **state) {
    (void)state;
    static const char *const lines[] = {"b1h2s64d64,f32", "b1h2s1sk64d64,f32"};
    static const char *const chosen[2][2] = {{"fwd_cpu_portable", "fwd_cpu_neon"},
                                             {"decode_cpu_portable", "decode_cpu_neon"}};
    for (int i = 0; i < 2; i++)
        for (int allowed = 0; allowed < 2; allowed++) {
            const lab_spec spec = parsed(lines[i]);
            const att_limits limits = {
                .device = ATT_DEVICE_CPU, .isa = ATT_ISA_NEON, .allow_unattested = allowed};
            const att_kernel_row *row;
            assert_ok(att_select(&row, &limits, &att_operation_attention, &spec.problem));
            assert_string_equal(row->id, chosen[i][allowed]);
        }
}

/* The rows for NEON: marked, and refused with the remedy or, on x86-64, for their needs. */
static void test_serves__neon__refused_with_the_reason(void **state) {
    (void)state;
    const lab_spec spec = parsed("b1h2s64d64,f32");
    size_t rows = 0;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->device != ATT_DEVICE_CPU || row->isa != ATT_ISA_NEON)
            continue;
        rows++;
        assert_true(row->unattested);
        if (row->family->operation != &att_operation_attention)
            continue;
        att_limits limits = {.device = ATT_DEVICE_CPU, .isa = ATT_ISA_AMX};
        att_refusal refusal;
        assert_false(
            att_row_serves(row, &limits, &att_operation_attention, &spec.problem, &refusal));
        assert_string_equal(refusal.why, "needs neon, this context has amx");
        limits.isa = ATT_ISA_NEON;
        if (strcmp(row->id, "fwd_cpu_neon") == 0) {
            assert_false(att_row_serves(row, &limits, &att_operation_attention, &spec.problem,
                                        &refusal));
            assert_non_null(strstr(refusal.why, "is unattested"));
        }
    }
    assert_int_equal(rows, 5);
}

/* A rung runs wherever slow kernels are allowed, on any GPU. */
static void test_select__rungs__need_no_evidence(void **state) {
    (void)state;
    att_limits limits = limits_of(89, false);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->cuda && row->cuda->role == ATT_ROLE_RUNG)
            assert_false(att_row_unattested(row, &limits));
    }
}

static void test_targets__by_row(void **state) {
    (void)state;
    char text[64];
    size_t off = 0;
    const att_limits nowhere = {.device = ATT_DEVICE_CPU};
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        lab_kernel_unattested_on(row, text, sizeof text);
        off += att_row_unattested(row, &nowhere);
        if (!row->cuda)
            assert_string_equal(text, "");
        else if (row->cuda->role != ATT_ROLE_RUNG && row->cuda->targets == ATT_SM_ALL &&
                 !row->unattested)
            assert_string_equal(text, "sm_80 sm_86 sm_89");
        else if (row->cuda->targets == ATT_SM90 && !row->unattested)
            assert_string_equal(text, "");
    }
    assert_true(off > 0); /* rows only for sm_8x */
}

/* Everything that the list of kernels calls attested is demanded by the tree's list of required
 * devices: every target, every CPU kernel. */
static void test_required__what_ships_as_attested__is_demanded(void **state) {
    (void)state;
    lab_evidence evidence;
    lab_message why;
    setenv("ATTEST_SUITES", SUITES, 1);
    if (!lab_evidence_read(&evidence, SUITES "/../evidence", &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const uint32_t attested = att_row_attested_targets(row);
        uint32_t demanded = 0;
        bool on_cpu = false;
        for (size_t r = 0; r < evidence.required_count; r++) {
            demanded |= att_cuda_target_bit(evidence.required[r].cc);
            on_cpu |= !evidence.required[r].cc &&
                      lab_kernel_runs_on(row, 0, evidence.required[r].isa);
        }
        const bool rung = row->cuda && row->cuda->role == ATT_ROLE_RUNG;
        if (row->cuda ? !rung && attested & ~demanded : !row->unattested && !on_cpu)
            fail_msg("%s ships as attested, and evidence/required.txt does not demand it",
                     row->id);
    }
    lab_evidence_free(&evidence);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select__attested_architecture__serves),
        cmocka_unit_test(test_select__another_architecture__needs_leave_and_says_how),
        cmocka_unit_test(test_select__neon__only_if_allowed),
        cmocka_unit_test(test_serves__neon__refused_with_the_reason),
        cmocka_unit_test(test_select__rungs__need_no_evidence),
        cmocka_unit_test(test_targets__by_row),
        cmocka_unit_test(test_required__what_ships_as_attested__is_demanded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
