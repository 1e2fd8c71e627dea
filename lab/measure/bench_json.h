/* bench_json.h: timed cases as the document that lab/measure/results.h reads: schema
 * attest-bench-2.
 *
 * In addition to the fields of -1, a result has "mode", "timer", "input_sets", "process" and
 * "round" of every sample, "discarded" {count, reasons}, "outliers" {below, above},
 * "power_capped", and, if NVML provides them, "clocks_mhz", "memory_clocks_mhz", "power_w" and
 * "temperature_c" of every sample; the document has "machine.driver" and "device_seconds". */
#ifndef LAB_BENCH_JSON_H
#define LAB_BENCH_JSON_H

#include <jansson.h>

#include "attest.h"
#include "lab/measure/bench.h"
#include "lab/measure/results.h"
#include "lab/statistics/verdict.h"

/* One case, timed or not. */
json_t *lab_json_bench_case(const lab_bench_case *c, const lab_bench_options *options);

/* A document with the machine of `ctx` and the options, and no results: the key "results" is an
 * empty array. */
json_t *lab_json_bench_document(const att_context *ctx, const lab_bench_options *options);

/* A verdict, its numbers and the settings of its rule. */
json_t *lab_json_verdict(const lab_verdict *verdict);

/* Add the samples of another process's result to the case and summarise again. It must be of
 * the same problem, subject and kernel. A failure there is a failure here. False if they differ
 * or memory runs out. */
bool lab_bench_merge(lab_bench_case *c, const lab_result *other, uint32_t process,
                     uint64_t seed, lab_message *why);

#endif
