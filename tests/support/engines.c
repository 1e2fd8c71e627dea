/* engines.c: contexts for the instruction sets of this machine. */
#include "tests/support/engines.h"

#include "cpu/features.h"
#include "tests/support/check.h"

att_context *context_open(att_isa isa, int32_t threads) {
    const att_context_options options = {
        .size = sizeof options,
        .device = ATT_DEVICE_CPU,
        .isa = isa,
        .threads = threads,
        /* everything that the kernels support, and those without evidence */
        .flags = isa == ATT_ISA_AMX    ? ATT_AMX_F32
                 : isa == ATT_ISA_NEON ? ATT_ALLOW_UNATTESTED
                                       : 0,
    };
    att_context *ctx = NULL;
    assert_ok(att_context_create(&ctx, &options));
    return ctx;
}

att_isa machine_isa(void) {
    att_context *ctx = context_open(ATT_ISA_PORTABLE, 1);
    att_context_info info = {.size = sizeof info};
    assert_ok(att_context_query(ctx, &info));
    att_context_destroy(ctx);
    return info.isa_machine;
}

int machine_isas(att_isa list[ENGINES_MAX]) {
    const att_isa top = machine_isa();
    int count = 0;
    for (int isa = ATT_ISA_PORTABLE; isa <= ATT_ISA_NEON; isa++)
        if (att_isa_includes(top, (att_isa)isa))
            list[count++] = (att_isa)isa;
    return count;
}

void engines_open(engines *e, int32_t threads) {
    e->count = machine_isas(e->isa);
    for (int i = 0; i < e->count; i++)
        e->ctx[i] = context_open(e->isa[i], threads);
}

void engines_close(engines *e) {
    for (int i = 0; i < e->count; i++)
        att_context_destroy(e->ctx[i]);
    e->count = 0;
}

int engines_setup(void **state) {
    static engines e;
    engines_open(&e, ENGINES_THREADS);
    *state = &e;
    return 0;
}

int engines_teardown(void **state) {
    engines_close(*state);
    return 0;
}

const char *isa_name(att_isa isa) {
    static const char *const names[] = {"auto",        "portable", "avx2", "avx512",
                                        "avx512_bf16", "amx",      "neon"};
    return names[isa];
}
