/* context.c: opening a device. */
#include "core/context.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "core/select.h"
#include "cpu/features.h"

enum { THREADS_MOST = 4096 };

/* The CPUs that this process may run on, as restricted by `taskset` or a container. */
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
    ATT_REQUIRE(asked >= ATT_ISA_AUTO && asked <= ATT_ISA_NEON, ATT_E_ARG, "isa",
                "isa=%d is not an att_isa", (int)asked);
    const char *field = "isa", *text = getenv("ATTEST_ISA");
    if (asked == ATT_ISA_AUTO && text && *text) {
        int ok;
        field = "ATTEST_ISA";
        asked = att_isa_parse(text, &ok);
        ATT_REQUIRE(
            ok, ATT_E_ARG, field,
            "ATTEST_ISA=%.40s is none of auto, portable, avx2, avx512, avx512_bf16, amx, neon",
            text);
    }
    ATT_REQUIRE(att_isa_includes(machine, asked), ATT_E_DEVICE, field,
                "%s=%s: this processor's highest instruction set is %s", field,
                att_isa_name(asked), att_isa_name(machine));
    *out = asked == ATT_ISA_AUTO ? att_cpu_isa_unasked() : asked;
    return ATT_OK;
}

/* A flag of the options, or its switch in the environment. */
static att_status choose_flag(bool *out, uint32_t flags, uint32_t flag, const char *name) {
    bool set = false;
    ATT_TRY(att_environment_switch(&set, name));
    *out = set || (flags & flag);
    return ATT_OK;
}

static att_status choose_kernel(att_limits *limits, const char *asked) {
    const char *field = "kernel";
    if (!asked) {
        field = "ATTEST_KERNEL";
        asked = getenv(field);
    }
    if (!asked || !*asked)
        return ATT_OK;
    ATT_REQUIRE(att_rows_match(limits, asked) && strlen(asked) < sizeof limits->kernel,
                ATT_E_ARG, field, "%s=%.60s: there is no such kernel for this device", field,
                asked);
    snprintf(limits->kernel, sizeof limits->kernel, "%s", asked);
    return ATT_OK;
}

static att_status check_options(const att_context_options *o) {
    ATT_REQUIRE(o->device >= ATT_DEVICE_AUTO && o->device <= ATT_DEVICE_CUDA, ATT_E_ARG,
                "device", "device=%d is not an att_device", (int)o->device);
    ATT_REQUIRE(o->device == ATT_DEVICE_CUDA || o->device_index == 0, ATT_E_DEVICE,
                "device_index", "device_index=%d names a GPU, but device is not cuda",
                o->device_index);
    ATT_REQUIRE((o->flags & ~(uint32_t)(ATT_ALLOW_SLOW | ATT_AMX_F32 | ATT_ALLOW_UNATTESTED |
                                        ATT_TRUST_POINTERS)) == 0,
                ATT_E_ARG, "flags", "flags=0x%x has unknown bits", o->flags);
    return ATT_OK;
}

/* Everything in a context that depends on the options and the environment. */
static att_status decide(att_context *ctx, const att_context_options *o) {
    att_limits *limits = &ctx->limits;
    ATT_TRY(check_options(o));
    ATT_TRY(choose_isa(&limits->isa, o->isa));
    ATT_TRY(choose_threads(&ctx->threads, o->threads));
    ATT_TRY(choose_flag(&limits->amx_f32, o->flags, ATT_AMX_F32, "ATTEST_AMX_F32"));
    ATT_TRY(choose_flag(&limits->allow_slow, o->flags, ATT_ALLOW_SLOW, "ATTEST_ALLOW_SLOW"));
    ATT_TRY(choose_flag(&limits->allow_unattested, o->flags, ATT_ALLOW_UNATTESTED,
                        "ATTEST_ALLOW_UNATTESTED"));
    ctx->trust_pointers = o->flags & ATT_TRUST_POINTERS;
    bool jit_only = false;
    ATT_TRY(att_environment_switch(&jit_only, "ATTEST_JIT"));
    ctx->source.jit_only = jit_only;
    ATT_TRY(att_context_choose_gpu(&ctx->gpu, o));
    limits->device = ctx->gpu ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU;
    if (ctx->gpu) {
        limits->gpu = att_cuda_device_limits(ctx->gpu);
        limits->isa = ATT_ISA_AUTO;
        ctx->threads = 0;
        ATT_TRY(att_context_read_rows(&ctx->rows, o));
        limits->user = ctx->rows;
    } else {
        ATT_TRY(att_context_check_rows(o));
    }
    return choose_kernel(limits, o->kernel);
}

/* What a context of the device needs: threads, or a copy of the cache folder's path. */
static att_status equip(att_context *ctx, const att_context_options *o) {
    if (!ctx->gpu)
        return att_pool_create(&ctx->pool, ctx->threads);
    if (!o->cache_dir)
        return ATT_OK;
    const size_t bytes = strlen(o->cache_dir) + 1;
    ctx->cache_dir = att_alloc(bytes);
    ATT_REQUIRE(ctx->cache_dir, ATT_E_MEMORY, "", "out of memory for a context");
    memcpy(ctx->cache_dir, o->cache_dir, bytes);
    ctx->source.cache_dir = ctx->cache_dir;
    return ATT_OK;
}

att_status att_context_create(att_context **out, const att_context_options *options) {
    ATT_REQUIRE(out, ATT_E_ARG, "out", "out is NULL");
    *out = NULL;
    att_context_options o = {.size = sizeof o};
    if (options)
        ATT_TRY(att_sized_copy(&o, sizeof o, ATT_OPTIONS_0_1, options, "options"));
    att_context *ctx = att_alloc(sizeof *ctx);
    ATT_REQUIRE(ctx, ATT_E_MEMORY, "", "out of memory for a context");
    atomic_init(&ctx->references, 1);
    att_status status = decide(ctx, &o);
    if (status == ATT_OK)
        status = equip(ctx, &o);
    if (status != ATT_OK) {
        att_free(ctx->rows);
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
    att_free(ctx->cache_dir);
    att_free(ctx->rows);
    att_free(ctx);
}

att_status att_context_query(const att_context *ctx, att_context_info *info) {
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(info, ATT_E_ARG, "info", "info is NULL");
    att_context_info now = {
        .size = sizeof now,
        .device = ctx->limits.device,
        .isa = ctx->limits.isa,
        .isa_machine = att_cpu_isa(),
        .threads = ctx->threads,
    };
    att_cpu_name(now.name, sizeof now.name);
    if (ctx->gpu) {
        const att_cuda_limits *gpu = ctx->limits.gpu;
        now.memory_bytes = gpu->memory_bytes;
        now.device_index = att_cuda_device_index(ctx->gpu);
        now.compute_capability = gpu->cc;
        now.multiprocessors = gpu->sms;
        now.driver_version = gpu->driver;
        snprintf(now.gpu_name, sizeof now.gpu_name, "%s", gpu->name);
        snprintf(now.gpu_uuid, sizeof now.gpu_uuid, "%s", gpu->uuid);
    }
    return att_sized_return(info, &now, sizeof now, ATT_INFO_0_1, "info");
}

size_t att_kernel_count(void) {
    return att_registry_count();
}

size_t att_context_kernel_count(const att_context *ctx) {
    return ctx ? att_rows_count(&ctx->limits) : 0;
}

static void describe_gpu_kernel(att_kernel_info *info, const att_cuda_kernel *k,
                                const att_cuda_limits *gpu) {
    static const int32_t capabilities[] = {80, 86, 89, 90}; /* in the order of the bits */
    static const att_origin origins[] = {
        [ATT_ORIGIN_NONE] = ATT_FROM_NOWHERE,
        [ATT_ORIGIN_EMBEDDED] = ATT_FROM_LIBRARY,
        [ATT_ORIGIN_PTX] = ATT_FROM_PTX,
        [ATT_ORIGIN_JIT] = ATT_FROM_SOURCE,
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++)
        if (k->targets & (1u << i))
            info->targets[n++] = capabilities[i];
    info->origin = origins[att_cuda_origin_of(k, gpu ? gpu->cc : info->targets[0])];
    info->rung = k->role == ATT_ROLE_RUNG;
    info->dtype = k->dtype;
    info->d_qk = k->d_qk;
    info->d_v = k->d_v;
    info->tile_m = k->tile_m;
    info->tile_n = k->tile_n;
    info->stages = k->stages;
    info->warps = k->warps;
}

att_status att_kernel_query(const att_context *ctx, size_t i, att_kernel_info *info) {
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(info, ATT_E_ARG, "info", "info is NULL");
    const size_t count = att_rows_count(&ctx->limits), built_in = att_registry_count();
    ATT_REQUIRE(i < count, ATT_E_ARG, "i", "i=%zu: there are %zu kernels", i, count);
    const att_kernel_row *row =
        i < built_in ? att_registry_row(i) : att_rows_at(&ctx->limits, i - built_in);
    att_kernel_info now = {
        .size = sizeof now,
        .id = row->id,
        .summary = row->summary,
        .device = row->device,
        .isa = row->isa,
        .available = att_row_available(row, &ctx->limits),
        .role = att_row_role(row),
        .unattested = att_row_unattested(row, &ctx->limits),
        .origin = ATT_FROM_LIBRARY,
        .d_qk = row->family->d_most,
        .d_v = row->family->d_most,
        .operation = row->family->operation->name,
        .user = row->scope != NULL,
    };
    if (row->cuda)
        describe_gpu_kernel(&now, row->cuda, ctx->limits.gpu);
    return att_sized_return(info, &now, sizeof now, ATT_KERNEL_0_1, "info");
}
