/* plan_result.h: everything that `attest plan` reports about one problem on one device. */
#ifndef LAB_PLAN_RESULT_H
#define LAB_PLAN_RESULT_H

#include <jansson.h>

#include "lab/plan/plan_device.h"
#include "lab/plan/plan_floor.h"
#include "lab/plan/plan_kernels.h"
#include "lab/plan/plan_tiles.h"
#include "lab/problem/spec.h"

typedef struct lab_plan_result {
    lab_work work;
    lab_floor floor, reach;
    bool has_reach; /* the device has measured rates */

    lab_tile *tiles; /* those that fit, fastest first; then the others */
    size_t tile_count, fitting;

    lab_plan_kernel *kernels; /* those that support the problem, the chosen one first */
    size_t kernel_count;
    const lab_plan_kernel *chosen; /* by the library, or NULL: `refusal` says why */
    const lab_tile *chosen_tile;   /* NULL if the kernel has no tile of plan_tiles.h */
    char refusal[sizeof((att_error *)0)->text];
} lab_plan_result;

/* Whether the problem can be planned: its specs have no prefix. */
bool lab_plan_takes(const lab_spec *spec);

/* Plan with only the kernels whose ids match `kernel`; NULL: any. Fails if the problem makes no
 * sense, or memory runs out. */
bool lab_plan_make(lab_plan_result *result, const lab_spec *spec, const lab_device *device,
                   const char *kernel, lab_message *why);
void lab_plan_free(lab_plan_result *result);

/* "m128n64s2w4". */
void lab_tile_name(const lab_tile *tile, char *buf, size_t n);

/* As JSON. */
json_t *lab_plan_device_object(const lab_device *device);
json_t *lab_plan_object(const lab_plan_result *result, const lab_spec *spec);

#endif
