/* fake_nvml.h: how a test controls the fake management library. */
#ifndef ATT_FAKE_NVML_H
#define ATT_FAKE_NVML_H

typedef struct fake_nvml {
    int init_code, handle_code; /* results of nvmlInit_v2 and nvmlDeviceGetHandleByUUID */
    int reading_code;           /* and of every reading */
    unsigned long long reasons; /* why the clocks are low, at every reading */
    /* One in this many readings is throttled by temperature; 0: none. Initially the environment
     * variable FAKE_NVML_THROTTLE. */
    long throttle_every;
    long readings; /* of reasons */
    long open;     /* initialised and not shut down */
    char uuid[64]; /* requested last */
} fake_nvml;

/* dlsym(library, "fake_nvml_state"): a function that returns the state. */
typedef fake_nvml *(*fake_nvml_state_function)(void);

#endif
