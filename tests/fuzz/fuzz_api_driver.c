/* fuzz_api_driver.c: attention and merge through the public API on a fake GPU, whose calls fail
 * now and then.
 *
 * The driver is the one that ATTEST_LIBCUDA names: the fake one of tests/fake_cuda, which
 * computes problems without pages or changes of the scores, or with FUZZ_DRIVER=virtual one
 * that runs the kernels themselves. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fuzz/api_calls.h"
#include "tests/fuzz/device_mirror.h"
#include "tests/fuzz/number_types.h"

static const att_cuda_driver *cu;
static fake_cuda *fake;           /* NULL: this driver cannot be made to fail */
static fake_nvrtc *fake_compiler; /* likewise */
static bool runs_kernels;         /* the driver's kernels are the real ones */

/* A function of the library that an environment variable names; NULL if it has none of that
 * name. */
static void *find(const char *variable, const char *function) {
    const char *path = getenv(variable);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    return library ? dlsym(library, function) : NULL;
}

static void enter_device(void) {
    CUcontext context;
    if (cu->DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cu->CtxPushCurrent(context) != CUDA_SUCCESS)
        finding("the driver has no context for its first device");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *kind = getenv("FUZZ_DRIVER"), *why = NULL;
    fake_cuda_state_function cuda_state;
    fake_nvrtc_state_function nvrtc_state;
    runs_kernels = kind && strcmp(kind, "virtual") == 0;
    setenv("ATTEST_ROWS", "", 1);
    *(void **)&cuda_state = find("ATTEST_LIBCUDA", "fake_cuda_state");
    *(void **)&nvrtc_state = find("ATTEST_LIBNVRTC", "fake_nvrtc_state");
    fake = cuda_state ? cuda_state() : NULL;
    fake_compiler = nvrtc_state ? nvrtc_state() : NULL;
    cu = att_cuda_driver_get(&why);
    if (!cu)
        finding("no driver: %s", why);
    enter_device();
    return 0;
}

/* ------------------------------------------------------------------------- failures */

/* The number of calls until one fails; 0: none will. */
static long fail_in, compile_fail_in;

static void arm(random_input *in) {
    static const int codes[] = {CUDA_ERROR_INVALID_VALUE,   CUDA_ERROR_OUT_OF_MEMORY,
                                CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_NO_BINARY_FOR_GPU,
                                CUDA_ERROR_LAUNCH_FAILED,   999};
    fail_in = fake && draw_chance(in, 35) ? draw_between(in, 1, 60) : 0;
    compile_fail_in = fake_compiler && draw_chance(in, 10) ? draw_between(in, 1, 8) : 0;
    if (fake)
        fake->fail_code = codes[draw_byte(in) % 6];
}

/* From here to stand_down() calls of the library may fail; the harness's own may not. */
static void stand_ready(void) {
    if (fake) {
        fake->calls = 0;
        fake->fail_at = fail_in;
    }
    if (fake_compiler) {
        fake_compiler->calls = 0;
        fake_compiler->fail_at = compile_fail_in;
    }
}

static void stand_down(void) {
    if (fake) {
        fail_in = fake->fail_at > fake->calls ? fake->fail_at - fake->calls : 0;
        fake->fail_at = 0;
    }
    if (fake_compiler) {
        compile_fail_in = fake_compiler->fail_at > fake_compiler->calls
                              ? fake_compiler->fail_at - fake_compiler->calls
                              : 0;
        fake_compiler->fail_at = 0;
    }
}

/* ------------------------------------------------------------------------------ runs */

/* What the fake driver's own arithmetic supports: masks, windows, grouped heads and lengths. */
static bool is_plain(const att_problem *p) {
    const uint32_t known =
        ATT_LSE | ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LENS_K | ATT_STARTS_K;
    return !(p->features & ~known) && p->softcap == 0.0f;
}

static double weight_error(const att_problem *p, const char *kernel) {
    const bool production =
        strncmp(kernel, "fwd_sm", 6) == 0 || strncmp(kernel, "decode_sm", 9) == 0;
    if (!production || !(runs_kernels || is_plain(p)))
        return -1.0;
    return 1e-4 + (p->dtype == ATT_F32 ? 0.0 : rounding_relative(p->dtype));
}

/* After a run: copy the results back, whatever calls are set to fail. */
static void take_back(device_mirror *mirror, const att_plan *plan) {
    stand_down();
    if (!mirror_fetch(mirror))
        finding("%s: the device is lost", att_plan_kernel(plan));
    mirror_free(mirror);
    stand_ready();
}

static att_status attend(const att_plan *plan, attention_case *c) {
    device_mirror mirror = {.cu = cu};
    const att_args *a = &c->args;
    stand_down();
    setenv("FAKE_CUDA_COMPUTES", is_plain(&c->problem) ? "1" : "0", 1);
    for (int i = 0; i < SLOT_COUNT; i++)
        if (c->used[i])
            mirror_add(&mirror, &c->slots[i]);
    att_args there = *a;
    there.q = mirror_of(&mirror, a->q);
    there.k = mirror_of(&mirror, a->k);
    there.v = mirror_of(&mirror, a->v);
    there.o = mirror_of(&mirror, a->o);
    there.lse = mirror_of(&mirror, a->lse);
    there.alibi = mirror_of(&mirror, a->alibi);
    there.bias = mirror_of(&mirror, a->bias);
    there.sinks = mirror_of(&mirror, a->sinks);
    there.cu_seqlens_q = mirror_of(&mirror, a->cu_seqlens_q);
    there.cu_seqlens_k = mirror_of(&mirror, a->cu_seqlens_k);
    there.lens_k = mirror_of(&mirror, a->lens_k);
    there.starts_k = mirror_of(&mirror, a->starts_k);
    there.q_offsets = mirror_of(&mirror, a->q_offsets);
    there.k_offsets = mirror_of(&mirror, a->k_offsets);
    there.page_table = mirror_of(&mirror, a->page_table);
    stand_ready();
    const att_status status =
        att_plan_run(plan, &there, mirror_of(&mirror, c->workspace), NULL);
    take_back(&mirror, plan);
    return status;
}

static att_status merge(const att_plan *plan, merge_case *c) {
    device_mirror mirror = {.cu = cu};
    const void *part_o[MERGE_PARTS_MOST];
    const float *part_lse[MERGE_PARTS_MOST];
    stand_down();
    setenv("FAKE_CUDA_COMPUTES", "1", 1);
    mirror_add(&mirror, &c->o);
    mirror_add(&mirror, &c->lse);
    mirror_add(&mirror, &c->scratch);
    for (int64_t i = 0; i < c->problem.parts; i++) {
        mirror_add(&mirror, &c->part_o[i]);
        mirror_add(&mirror, &c->part_lse[i]);
    }
    for (int64_t i = 0; i < c->problem.parts; i++) {
        part_o[i] = mirror_of(&mirror, c->part_o_list[i]);
        part_lse[i] = mirror_of(&mirror, c->part_lse_list[i]);
    }
    att_merge_args there = c->args;
    there.part_o = c->args.part_o ? part_o : NULL;
    there.part_lse = c->args.part_lse ? part_lse : NULL;
    there.o = mirror_of(&mirror, c->args.o);
    there.lse = mirror_of(&mirror, c->args.lse);
    stand_ready();
    const att_status status =
        att_merge_run(plan, &there, mirror_of(&mirror, c->workspace), NULL);
    take_back(&mirror, plan);
    return status;
}

/* -------------------------------------------------------------------------- contexts */

/* One kernel of the library by its number, or any of them. */
static const char *draw_kernel(random_input *in) {
    att_kernel_info info = {.size = sizeof info};
    if (!draw_chance(in, 60))
        return NULL;
    const size_t which = draw_u32(in) % att_kernel_count();
    return att_kernel_query(NULL, which, &info) == ATT_OK && info.device == ATT_DEVICE_CUDA
               ? info.id
               : NULL;
}

/* The fake driver's first two devices differ in compute capability; its memory is on the device
 * that it reports. */
static int draw_device(random_input *in) {
    const int device = fake && draw_chance(in, 30);
    if (fake)
        fake->memory_device = device;
    return device;
}

static att_context *draw_context(random_input *in) {
    const att_context_options options = {
        .size = sizeof options,
        .device = ATT_DEVICE_CUDA,
        .device_index = draw_device(in),
        .flags = draw_byte(in) & (ATT_ALLOW_SLOW | ATT_ALLOW_UNATTESTED),
        .cache_dir = "",
        .kernel = draw_kernel(in),
        .rows = ""};
    att_context *ctx = NULL;
    const att_status status = att_context_create(&ctx, &options);
    if (status)
        api_check_error(status);
    return ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    random_input in = random_input_of(data, size);
    const uint8_t what = draw_byte(&in);
    arm(&in);
    const bool may_fail = fail_in > 0 || compile_fail_in > 0;
    stand_ready();
    if (what < 8) {
        api_context(&in, ATT_DEVICE_CUDA);
        stand_down();
        return 0;
    }
    const api_ground ground = {.ctx = draw_context(&in),
                               .may_fail = may_fail,
                               .may_refuse = true,
                               .attend = attend,
                               .merge = merge,
                               .weight_error = weight_error,
                               .judges_merge = true};
    if (ground.ctx && what < 60)
        api_merge(&ground, &in);
    else if (ground.ctx)
        api_attention(&ground, &in);
    att_context_destroy(ground.ctx);
    stand_down();
    if (fake && fake->sticky)
        finding("a launch was wrong: the device is lost");
    return 0;
}
