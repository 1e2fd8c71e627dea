/* plan_floor.c: counts of work, and rooflines. */
#include "lab/plan/plan_floor.h"

void lab_work_of(lab_work *work, const lab_spec *spec) {
    spec->operation->work(work, spec);
}

static double rate(const lab_device *device, lab_rate_kind kind) {
    return device->rates[kind].value;
}

/* Convert a rate per clock of one SM to a rate per second of all SMs. */
static double whole_device(const lab_device *device, lab_rate_kind kind) {
    return rate(device, kind) * device->limits.sms * rate(device, LAB_RATE_CLOCK);
}

static void fill(lab_floor *floor, const lab_work *work, const lab_device *device,
                 double products, double memory) {
    floor->seconds[LAB_BOUND_TENSOR] = work->flops / products;
    floor->seconds[LAB_BOUND_MEMORY] = work->bytes / memory;
    floor->seconds[LAB_BOUND_EXP] = work->pairs / whole_device(device, LAB_RATE_EXP);
    floor->binds = LAB_BOUND_TENSOR;
    for (int i = 0; i < LAB_BOUND_COUNT; i++)
        if (floor->seconds[i] > floor->seconds[floor->binds])
            floor->binds = (lab_bound_kind)i;
}

/* float32 with fused multiply-adds, or as three products of 16-bit terms
 * (kernels/two_terms.cuh): whichever is faster. */
static double float32_products(const lab_device *device) {
    const double fused = 2.0 * whole_device(device, LAB_RATE_FP32);
    const double terms = rate(device, LAB_RATE_TENSOR) / 3.0;
    return fused > terms ? fused : terms;
}

void lab_floor_of(lab_floor *floor, const lab_work *work, att_dtype dtype,
                  const lab_device *device) {
    fill(floor, work, device,
         dtype == ATT_F32 ? float32_products(device) : rate(device, LAB_RATE_TENSOR),
         rate(device, LAB_RATE_MEMORY));
}

bool lab_reach_of(lab_floor *reach, const lab_work *work, att_dtype dtype,
                  const lab_device *device) {
    const double tensor = rate(device, LAB_RATE_TENSOR_SEEN);
    const double memory = rate(device, LAB_RATE_MEMORY_SEEN);
    if (dtype == ATT_F32 || tensor <= 0.0 || memory <= 0.0)
        return false;
    fill(reach, work, device, tensor, memory);
    return true;
}

double lab_floor_seconds(const lab_floor *floor) {
    return floor->seconds[floor->binds];
}

const char *lab_bound_name(lab_bound_kind kind) {
    static const char *const names[LAB_BOUND_COUNT] = {"tensor", "memory", "exp"};
    return names[kind];
}
