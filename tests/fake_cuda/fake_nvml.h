/* fake_nvml.h: how a test controls the management library that is none. */
#ifndef ATT_FAKE_NVML_H
#define ATT_FAKE_NVML_H

typedef struct fake_nvml {
    int init_code, handle_code; /* what nvmlInit_v2 and nvmlDeviceGetHandleByUUID give */
    int reading_code;           /* and what every reading does */
    unsigned long long reasons; /* why the clocks are low, at every reading */
    /* Of every so many readings one is throttled by temperature; 0: none. At first what the environment's
     * FAKE_NVML_THROTTLE says. */
    long throttle_every;
    long readings; /* of reasons */
    long open;     /* initialised and not shut down */
    char uuid[64]; /* that was asked for last */
} fake_nvml;

/* dlsym(library, "fake_nvml_state"): a function that gives the state. */
typedef fake_nvml *(*fake_nvml_state_function)(void);

#endif
