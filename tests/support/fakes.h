/* fakes.h: replace the driver and the compiler with fake ones, for this process. */
#ifndef TESTS_SUPPORT_FAKES_H
#define TESTS_SUPPORT_FAKES_H

#include "kernels/fwd_params.h"
#include "tests/fake_cuda/fake_cublas.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nvml.h"

/* From now on the library finds this driver, or this compiler; returns their state, to set and
 * to read. Must be called before the library has searched for one: it searches once. */
fake_cuda *use_fake_cuda(void);
fake_nvrtc *use_fake_nvrtc(void);

/* Both, as the set-up of a group of tests. */
int use_fake_gpu(void **state);

/* The same for cuBLAS. */
fake_cublas *use_fake_cublas(void);

/* The same for the management library. */
fake_nvml *use_fake_nvml(void);

/* The library finds none: its variable names a file that does not exist. */
void use_no_cuda(void);
void use_no_nvrtc(void);
void use_no_cublas(void);
void use_no_nvml(void);

/* A library that opens but is not a driver. */
void use_wrong_cuda(void);

/* The problem and the pointers in a launch's parameters, for any family of forward kernels;
 * NULL: another kernel's. */
const att_fwd_params *fake_forward_params(const void *params, size_t bytes);

/* Reset calls, failures and what the test had set to fail. */
void reset_fake_cuda(fake_cuda *cuda);

#endif
