/* fakes.c: the fake libraries, set through the environment variables for the real ones. */
#include "tests/support/fakes.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "kernels/fwd_shares_params.h"
#include "kernels/fwd_sm90_params.h"
#include "tests/support/check.h"

#define CUDA_FILE   FAKES "/libfake_cuda.so"
#define NVRTC_FILE  FAKES "/libfake_nvrtc.so"
#define CUBLAS_FILE FAKES "/libfake_cublas.so"
#define NVML_FILE   FAKES "/libfake_nvml.so"

/* A function of a library that stays open, as the library under test keeps it open. */
static void *find(const char *file, const char *name) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    return dlsym(library, name);
}

fake_cuda *use_fake_cuda(void) {
    setenv("ATTEST_LIBCUDA", CUDA_FILE, 1);
    fake_cuda_state_function get;
    *(void **)(&get) = find(CUDA_FILE, "fake_cuda_state");
    return get();
}

fake_nvrtc *use_fake_nvrtc(void) {
    setenv("ATTEST_LIBNVRTC", NVRTC_FILE, 1);
    fake_nvrtc_state_function get;
    *(void **)(&get) = find(NVRTC_FILE, "fake_nvrtc_state");
    return get();
}

int use_fake_gpu(void **state) {
    (void)state;
    use_fake_cuda();
    use_fake_nvrtc();
    return 0;
}

fake_cublas *use_fake_cublas(void) {
    setenv("ATTEST_LIBCUBLAS", CUBLAS_FILE, 1);
    fake_cublas_state_function get;
    *(void **)(&get) = find(CUBLAS_FILE, "fake_cublas_state");
    return get();
}

fake_nvml *use_fake_nvml(void) {
    setenv("ATTEST_LIBNVML", NVML_FILE, 1);
    fake_nvml_state_function get;
    *(void **)(&get) = find(NVML_FILE, "fake_nvml_state");
    return get();
}

void use_no_cuda(void) {
    setenv("ATTEST_LIBCUDA", FAKES "/absent.so", 1);
}

void use_no_nvrtc(void) {
    setenv("ATTEST_LIBNVRTC", FAKES "/absent.so", 1);
}

void use_no_cublas(void) {
    setenv("ATTEST_LIBCUBLAS", FAKES "/absent.so", 1);
}

void use_no_nvml(void) {
    setenv("ATTEST_LIBNVML", FAKES "/absent.so", 1);
}

void use_wrong_cuda(void) {
    setenv("ATTEST_LIBCUDA", NVRTC_FILE, 1);
}

void reset_fake_cuda(fake_cuda *cuda) {
    cuda->fail_at = 0;
    cuda->fail_call = NULL;
    cuda->sticky = 0;
    cuda->calls = 0;
    cuda->failed_call[0] = '\0';
}

const att_fwd_params *fake_forward_params(const void *params, size_t bytes) {
    if (bytes == sizeof(att_fwd_sm90_params))
        return &((const att_fwd_sm90_params *)params)->fwd;
    if (bytes == sizeof(att_fwd_sm90_feature_params))
        return &((const att_fwd_sm90_feature_params *)params)->plain.fwd;
    if (bytes == sizeof(att_fwd_mask_params))
        return &((const att_fwd_mask_params *)params)->fwd;
    if (bytes == sizeof(att_fwd_shares_params))
        return &((const att_fwd_shares_params *)params)->fwd;
    return bytes == sizeof(att_fwd_params) ? params : NULL;
}
