/* probe_params.h: what test_runtime.c passes to probe.cu. */
#ifndef ATT_PROBE_PARAMS_H
#define ATT_PROBE_PARAMS_H

typedef struct probe_params {
    const float *in;
    float *out; /* out[i] = in[i] * FACTOR + add */
    int count;
    int shared_words; /* of dynamic shared memory that the block writes and reads back */
    float add;
} probe_params;

#endif
