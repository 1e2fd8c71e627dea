/* fuzz_api_cpu.c: attention, merge and mixtures of experts through the public API, on every
 * instruction set of this machine. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/api_calls.h"
#include "tests/fuzz/number_types.h"

enum { THREADS_MOST = 3 };

/* Opened when first drawn; NULL if this machine lacks the instructions. */
static att_context *contexts[ATT_ISA_NEON + 1][THREADS_MOST + 1][2];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    setenv("ATTEST_ROWS", "", 1);
    setenv("ATTEST_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    return 0;
}

/* docs/numerics-kernels.md: weights that AMX or AVX512-BF16 multiply have at most 16 bits;
 * elsewhere they are float32. */
static double weight_error(const att_problem *p, const char *kernel) {
    if (!strstr(kernel, "amx") && !strstr(kernel, "avx512_bf16"))
        return 4e-7;
    if (p->dtype == ATT_F32)
        return 1e-6;
    return p->dtype == ATT_BF16 ? 8.6e-5 + rounding_relative(ATT_BF16) : 2e-5;
}

static att_status attend(const att_plan *plan, attention_case *c) {
    return att_plan_run(plan, &c->args, c->workspace, NULL);
}

static att_status merge(const att_plan *plan, merge_case *c) {
    return att_merge_run(plan, &c->args, c->workspace, NULL);
}

/* On aarch64, what is drawn above portable means NEON. */
static att_isa draw_isa(random_input *in) {
    const att_isa isa = (att_isa)draw_between(in, ATT_ISA_PORTABLE, ATT_ISA_AMX);
#if defined(__aarch64__)
    return isa == ATT_ISA_PORTABLE ? isa : ATT_ISA_NEON;
#else
    return isa;
#endif
}

/* Mostly one: the threads of a pool spin after every run, for longer than most runs take. */
static int draw_threads(random_input *in) {
    const uint8_t byte = draw_byte(in);
    return byte < 192 ? 1 : 2 + byte % (THREADS_MOST - 1);
}

static att_context *draw_context(random_input *in) {
    const att_isa isa = draw_isa(in);
    const int threads = draw_threads(in), amx = draw_chance(in, 50);
    const att_context_options options = {
        .size = sizeof options,
        .device = ATT_DEVICE_CPU,
        .threads = threads,
        .isa = isa,
        .flags = (amx ? ATT_AMX_F32 : 0u) | ATT_ALLOW_UNATTESTED};
    att_context **slot = &contexts[isa][threads][amx];
    if (!*slot && att_context_create(slot, &options) != ATT_OK)
        api_check_error(att_last_error()->status);
    return *slot;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    random_input in = random_input_of(data, size);
    const uint8_t what = draw_byte(&in);
    if (what < 4) {
        api_context(&in, ATT_DEVICE_CPU);
        return 0;
    }
    const api_ground ground = {.ctx = draw_context(&in),
                               .is_cpu = true,
                               .attend = attend,
                               .merge = merge,
                               .weight_error = weight_error,
                               .judges_merge = true};
    if (!ground.ctx)
        return 0;
    if (what < 50)
        api_merge(&ground, &in);
    else if (what < 120)
        api_moe(&ground, &in);
    else
        api_attention(&ground, &in);
    return 0;
}
