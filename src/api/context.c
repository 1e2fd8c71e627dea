/* context.c: opening a device. */
#include "api/context.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "api/sized.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/features.h"

enum { THREADS_MOST = 4096 };

/* The CPUs this process may be scheduled on: what `taskset` or a container left it. */
static int usable_cpus(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

static att_status choose_threads(int *out, int32_t asked) {
    ATT_REQUIRE(asked >= 0 && asked <= THREADS_MOST, ATT_E_ARG, "threads",
                "threads=%d is not in 0 .. %d", asked, THREADS_MOST);
    const char *text = getenv("ATTEST_THREADS");
    if (asked == 0 && text && *text) {
        char *end;
        errno = 0;
        const long value = strtol(text, &end, 10);
        ATT_REQUIRE(!errno && !*end && value >= 1 && value <= THREADS_MOST, ATT_E_ARG,
                    "ATTEST_THREADS", "ATTEST_THREADS=%.40s is not a number in 1 .. %d", text,
                    THREADS_MOST);
        asked = (int32_t)value;
    }
    *out = asked ? asked : usable_cpus();
    return ATT_OK;
}

static att_status choose_isa(att_isa *out, att_isa asked) {
    const att_isa machine = att_cpu_isa();
    ATT_REQUIRE(asked >= ATT_ISA_AUTO && asked <= ATT_ISA_AMX, ATT_E_ARG, "isa",
                "isa=%d is not an att_isa", (int)asked);
    const char *field = "isa", *text = getenv("ATTEST_ISA");
    if (asked == ATT_ISA_AUTO && text && *text) {
        int ok;
        field = "ATTEST_ISA";
        asked = att_isa_parse(text, &ok);
        ATT_REQUIRE(ok, ATT_E_ARG, field,
                    "ATTEST_ISA=%.40s is none of auto, portable, avx2, avx512, amx", text);
    }
    ATT_REQUIRE(asked <= machine, ATT_E_DEVICE, field,
                "%s=%s: this processor has no more than %s", field, att_isa_name(asked),
                att_isa_name(machine));
    *out = asked == ATT_ISA_AUTO ? machine : asked;
    return ATT_OK;
}

static att_status choose_amx_f32(bool *out, uint32_t flags) {
    const char *text = getenv("ATTEST_AMX_F32");
    const bool set = text && *text;
    ATT_REQUIRE(!set || strcmp(text, "0") == 0 || strcmp(text, "1") == 0, ATT_E_ARG,
                "ATTEST_AMX_F32", "ATTEST_AMX_F32=%.40s is neither 0 nor 1", text);
    *out = (flags & ATT_AMX_F32) || (set && *text == '1');
    return ATT_OK;
}

static att_status check_options(const att_context_options *o) {
    ATT_REQUIRE(o->device >= ATT_DEVICE_AUTO && o->device <= ATT_DEVICE_CUDA, ATT_E_ARG,
                "device", "device=%d is not an att_device", (int)o->device);
    ATT_REQUIRE(o->device != ATT_DEVICE_CUDA, ATT_E_DEVICE, "device",
                "device=cuda: this build has no GPU kernels");
    ATT_REQUIRE(o->device_index == 0, ATT_E_DEVICE, "device_index",
                "device_index=%d: there is one CPU device, 0", o->device_index);
    ATT_REQUIRE((o->flags & ~(uint32_t)(ATT_ALLOW_SLOW | ATT_AMX_F32)) == 0, ATT_E_ARG, "flags",
                "flags=0x%x has unknown bits", o->flags);
    return ATT_OK;
}

att_status att_context_create(att_context **out, const att_context_options *options) {
    ATT_REQUIRE(out, ATT_E_ARG, "out", "out is NULL");
    *out = NULL;
    att_context_options o = {.size = sizeof o};
    if (options)
        ATT_TRY(att_sized_copy(&o, sizeof o, options, "options"));
    ATT_TRY(check_options(&o));
    att_isa isa = ATT_ISA_AUTO;
    int threads = 0;
    ATT_TRY(choose_isa(&isa, o.isa));
    ATT_TRY(choose_threads(&threads, o.threads));
    bool amx_f32 = false;
    ATT_TRY(choose_amx_f32(&amx_f32, o.flags));

    att_context *ctx = att_alloc(sizeof *ctx);
    ATT_REQUIRE(ctx, ATT_E_MEMORY, "", "out of memory for a context");
    atomic_init(&ctx->references, 1);
    ctx->limits = (att_limits){.isa = isa, .amx_f32 = amx_f32};
    ctx->threads = threads;
    const att_status status = att_pool_create(&ctx->pool, threads);
    if (status != ATT_OK) {
        att_free(ctx);
        return status;
    }
    *out = ctx;
    return ATT_OK;
}

void att_context_retain(att_context *ctx) {
    atomic_fetch_add(&ctx->references, 1);
}

void att_context_destroy(att_context *ctx) {
    if (!ctx || atomic_fetch_sub(&ctx->references, 1) != 1)
        return;
    att_pool_destroy(ctx->pool);
    att_free(ctx);
}

att_status att_context_query(const att_context *ctx, att_context_info *info) {
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(info, ATT_E_ARG, "info", "info is NULL");
    att_context_info now = {
        .size = sizeof now,
        .device = ATT_DEVICE_CPU,
        .isa = ctx->limits.isa,
        .isa_machine = att_cpu_isa(),
        .threads = ctx->threads,
    };
    att_cpu_name(now.name, sizeof now.name);
    return att_sized_return(info, &now, sizeof now, "info");
}

size_t att_kernel_count(void) {
    return att_registry_count();
}

att_status att_kernel_query(const att_context *ctx, size_t i, att_kernel_info *info) {
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(info, ATT_E_ARG, "info", "info is NULL");
    ATT_REQUIRE(i < att_registry_count(), ATT_E_ARG, "i", "i=%zu: there are %zu kernels", i,
                att_registry_count());
    const att_kernel_row *row = att_registry_row(i);
    const att_kernel_info now = {
        .size = sizeof now,
        .id = row->id,
        .summary = row->summary,
        .device = row->device,
        .isa = row->isa,
        .available = row->isa <= ctx->limits.isa,
    };
    return att_sized_return(info, &now, sizeof now, "info");
}
