/* fake_backend.c: a GPU that runs nothing: a launch is recorded, passed to the test, or its
 * problem is computed on the host. */
#include "tests/fake_cuda/fake_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bwd_params.h"
#include "kernels/fwd_shares_params.h"
#include "kernels/fwd_sm90_params.h"
#include "kernels/moe_sm90_params.h"
#include "kernels/unfused_params.h"
#include "peers/cublas/cublas_steps.h"
#include "tests/fake_cuda/fake_driver.h"
#include "tests/fake_cuda/fake_hopper.h"
#include "tests/fake_cuda/fake_kernel.h"
#include "tests/fake_cuda/fake_merge.h"

struct backend_code {
    int tile[2];        /* rows and keys, if it is compiled from fwd_sm90 */
    double duration_us; /* of a launch of this code */
    bool wrong;
};

backend_code *backend_load(const void *image) {
    backend_code *code = calloc(1, sizeof *code);
    fake_hopper_tile(image, code->tile);
    code->duration_us = fake_duration(image);
    code->wrong = fake_is_wrong(image);
    return code;
}

void backend_unload(backend_code *code) {
    free(code);
}

/* Rows and keys of a tile of fwd_sm90; false: another source. Machine code reveals only its
 * name. */
static bool hopper_tile(const backend_code *code, const char *kernel, int tile[2]) {
    memcpy(tile, code->tile, sizeof code->tile);
    const char *named = strstr(kernel, "fwd_sm90") ? strstr(kernel, "_m") : NULL;
    if (named)
        sscanf(named, "_m%dn%d", &tile[0], &tile[1]);
    return tile[0] > 0;
}

/* It preprocesses a mask for fwd_sm90, which reads the mask itself here. */
static bool reads_mask(const char *kernel) {
    return strncmp(kernel, "mask_", 5) == 0;
}

/* It joins the parts that the kernel before it leaves, which has computed the whole answer here. */
static bool joins(const char *kernel) {
    return strncmp(kernel, "decode_join_", 12) == 0;
}

size_t backend_params_bytes(const backend_code *code, const char *kernel) {
    int tile[2];
    if (fake_state.kernel_params > 0)
        return fake_state.kernel_params;
    if (strncmp(kernel, "peer_cublas", 11) == 0)
        return sizeof(peer_cublas_params);
    if (hopper_tile(code, kernel, tile))
        return strstr(kernel, "_alibi_") || strstr(kernel, "_softcap_") ||
                       strstr(kernel, "_bias_") || strstr(kernel, "_mask_")
                   ? sizeof(att_fwd_sm90_feature_params)
                   : sizeof(att_fwd_sm90_params);
    if (fake_is_merge(kernel))
        return sizeof(att_merge_params);
    if (reads_mask(kernel))
        return sizeof(att_fwd_mask_params);
    if (strstr(kernel, "_shares_") || joins(kernel))
        return sizeof(att_fwd_shares_params);
    if (strncmp(kernel, "bwd_", 4) == 0)
        return sizeof(att_bwd_params);
    if (strncmp(kernel, "moe_", 4) == 0)
        return strstr(kernel, "_sm90_") ? sizeof(att_moe_sm90_params) : sizeof(att_moe_params);
    return strstr(kernel, "unfused") ? sizeof(att_unfused_params) : sizeof(att_fwd_params);
}

/* fwd_sm90 gets the registers for the number of threads that it is compiled for. A kernel that
 * uses nearly all shared memory has none that is static. */
backend_limits backend_limits_of(const backend_code *code, const char *kernel) {
    int tile[2];
    const int threads = hopper_tile(code, kernel, tile) || strstr(kernel, "moe_") ? 640 : 256;
    return (backend_limits){
        .threads = fake_state.max_threads ? fake_state.max_threads : threads,
        .registers = 168,
        .shared_bytes = strncmp(kernel, "fake_", 5) == 0 ? 1024 : 0};
}

/* A deterministic two per cent of noise around `us`. */
static double noisy(double us) {
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return us * (0.99 + 0.02 * (double)(seed >> 40) / (double)(1 << 24));
}

void backend_launch(const backend_code *code, const char *kernel, const CUlaunchConfig *config,
                    int cluster, const void *params, size_t bytes) {
    (void)cluster;
    int tile[2];
    const bool hopper = hopper_tile(code, kernel, tile);
    if (fake_state.run) {
        fake_state.run(kernel, config, params, bytes);
    } else if (fake_computes() && fake_is_merge(kernel)) {
        fake_clock_us += noisy(code->duration_us);
        if (!fake_merge(kernel, params, config->gridDimX, config->blockDimX, code->wrong))
            fake_state.sticky = CUDA_ERROR_LAUNCH_FAILED;
    } else if (fake_computes() && reads_mask(kernel)) {
        fake_clock_us += noisy(code->duration_us);
        *((const att_fwd_mask_params *)params)->next_tile = 0;
    } else if (fake_computes() && bytes == sizeof(att_fwd_params)) {
        fake_clock_us += noisy(code->duration_us);
        if (strncmp(kernel, "combine", 7) != 0) /* the first launch computes the whole answer */
            fake_attention(params, code->wrong);
    } else if (fake_computes() && bytes == sizeof(att_fwd_shares_params)) {
        fake_clock_us += noisy(code->duration_us);
        if (!joins(kernel))
            fake_attention(&((const att_fwd_shares_params *)params)->fwd, code->wrong);
    } else if (fake_computes() && hopper) {
        fake_clock_us += noisy(code->duration_us);
        if (!fake_hopper_attention(params, tile[0], tile[1], code->wrong))
            fake_state.sticky = CUDA_ERROR_LAUNCH_FAILED;
    }
}

bool backend_finish(void) {
    return true; /* a launch completes at once */
}

bool backend_forgives(void) {
    return false;
}

void backend_memory_added(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}

void backend_memory_removed(void *memory) {
    (void)memory;
}

void backend_memory_written(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}

bool backend_keeps_time(void) {
    return fake_computes();
}

enum { SMS = 132, IN_GROUPS = 120, CLUSTER_MOST = 16 }; /* of an H200 */

int backend_multiprocessors(void) {
    return SMS;
}

int backend_clusters(int blocks) {
    const int most = fake_state.cluster_most ? fake_state.cluster_most : CLUSTER_MOST;
    const int slots = fake_state.cluster_slots ? fake_state.cluster_slots
                      : blocks <= 2            ? SMS
                                               : IN_GROUPS;
    return blocks > most ? 0 : slots / blocks;
}

const char *backend_name(void) {
    return "Fake GPU";
}

const char *backend_error_text(void) {
    return "as the test wished";
}
