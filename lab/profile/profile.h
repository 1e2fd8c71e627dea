/* profile.h: what Nsight Compute reports about kernels: the metrics that matter, as numbers.
 *
 * Its times are not benchmarks: caches are flushed before every launch, and a launch is
 * repeated for its counters. A metric that this GPU or this version of ncu does not have is
 * NaN, never 0. */
#ifndef LAB_PROFILE_H
#define LAB_PROFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

typedef enum lab_metric {
    LAB_METRIC_TIME, /* ns */
    LAB_METRIC_SM,   /* from here on percentages */
    LAB_METRIC_TENSOR,
    LAB_METRIC_FMA,
    LAB_METRIC_DRAM,
    LAB_METRIC_L2,
    LAB_METRIC_WARPS,
    LAB_METRIC_READ, /* bytes */
    LAB_METRIC_WRITTEN,
    LAB_METRIC_REGISTERS, /* per thread */
    LAB_METRIC_SHARED,    /* bytes per block, dynamic */
    LAB_METRIC_WAVES,
    LAB_METRIC_BY_REGISTERS, /* blocks per SM, as limited by registers */
    LAB_METRIC_BY_SHARED,
    LAB_METRIC_BY_WARPS,
    LAB_METRIC_BY_BLOCKS,
    LAB_METRIC_SPILLS, /* requests */
    LAB_METRIC_CONFLICTS,
    LAB_METRIC_HMMA, /* instructions */
    LAB_METRIC_GMMA,
    LAB_METRIC_STALL_FIRST, /* warps waiting for something, per instruction issued */
    LAB_METRIC_STALL_LONG_SCOREBOARD = LAB_METRIC_STALL_FIRST,
    LAB_METRIC_STALL_SHORT_SCOREBOARD,
    LAB_METRIC_STALL_BARRIER,
    LAB_METRIC_STALL_WAIT,
    LAB_METRIC_STALL_MATH,
    LAB_METRIC_STALL_MIO,
    LAB_METRIC_STALL_LG,
    LAB_METRICS
} lab_metric;

typedef enum lab_metric_kind {
    LAB_KIND_TIME,  /* ns */
    LAB_KIND_SHARE, /* percent */
    LAB_KIND_BYTES,
    LAB_KIND_COUNT,
    LAB_KIND_RATIO
} lab_metric_kind;

typedef struct lab_metric_row {
    const char *key;   /* in documents: "tensor_percent" */
    const char *label; /* for people */
    const char *name;  /* ncu's */
    lab_metric_kind kind;
} lab_metric_row;

extern const lab_metric_row lab_metric_rows[LAB_METRICS];

/* One launch. */
typedef struct lab_profiled {
    int launch;
    char kernel[128];
    double values[LAB_METRICS]; /* NaN: missing */
} lab_profiled;

typedef struct lab_profile {
    lab_profiled *list;
    size_t count;
} lab_profile;

void lab_profile_free(lab_profile *profile);

/* The last launch of every kernel, by name: the i-th, NULL past the end. */
const lab_profiled *lab_profile_kernel(const lab_profile *profile, size_t i);

/* Parse the output of ncu --csv: one line per metric, or (--page raw) one line per launch.
 * `why` says what is wrong with it. */
bool lab_profile_parse(lab_profile *profile, const char *text, lab_message *why);

/* Whether the list of ncu --query-metrics has this metric. Metrics of the launch itself are in
 * no list: true. */
bool lab_metric_listed(lab_metric metric, const char *list);

/* One sentence: what the kernel spends its time on, and the numbers that show it. */
void lab_profile_bottleneck(const lab_profiled *profiled, char *buf, size_t n);

/* The stall reason that most warps wait in; LAB_METRICS if unknown. */
lab_metric lab_profile_worst_stall(const lab_profiled *profiled);

/* The launches as a document of `attest profile --json`, schema attest-profile-1, and back. */
json_t *lab_profile_json(const lab_profile *profile);
bool lab_profile_read_json(lab_profile *profile, const char *path, lab_message *why);

#endif
