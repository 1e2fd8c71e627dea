/* plan_choice.c: the library's own selector, with the limits of a device file. */
#include "lab/plan/plan_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/context.h"
#include "core/select.h"
#include "lab/problem/lab_operation.h"

static att_status set_kernel(att_limits *limits, const char *pattern) {
    if (!pattern)
        return ATT_OK;
    ATT_REQUIRE(strlen(pattern) < sizeof limits->kernel && att_rows_match(limits, pattern),
                ATT_E_ARG, "kernel", "kernel=%.60s: there is no such kernel for GPUs", pattern);
    snprintf(limits->kernel, sizeof limits->kernel, "%s", pattern);
    return ATT_OK;
}

/* The limits of a context on that device: the options, and the switches of the environment. */
static att_status limits_of(att_limits *limits, const lab_device *device,
                            const lab_choice_options *options) {
    *limits = (att_limits){.device = ATT_DEVICE_CUDA, .gpu = &device->limits};
    ATT_TRY(att_environment_switch(&limits->allow_slow, "ATTEST_ALLOW_SLOW"));
    ATT_TRY(att_environment_switch(&limits->allow_unattested, "ATTEST_ALLOW_UNATTESTED"));
    limits->allow_slow = limits->allow_slow || options->allow_slow;
    limits->allow_unattested = limits->allow_unattested || options->allow_unattested;
    return set_kernel(limits, options->kernel);
}

att_status lab_choice_explain(const char **chosen, const lab_device *device,
                              const lab_spec *spec, const lab_choice_options *options,
                              char *buf, size_t n) {
    const att_operation *operation = spec->operation->library;
    const void *problem = spec->operation->problem(spec);
    _Alignas(16) char extents[ATT_EXTENTS_MAX];
    att_limits limits;
    *chosen = NULL;
    ATT_TRY(limits_of(&limits, device, options));
    ATT_TRY(operation->check(problem, extents));
    const att_kernel_row *row;
    const att_status status = att_select(&row, &limits, operation, problem);
    if (status == ATT_OK)
        *chosen = row->id;
    char detail[sizeof device->limits.name + 32];
    snprintf(detail, sizeof detail, "would serve it on %s", device->limits.name);
    att_select_explain(&limits, operation, problem, detail, buf, n);
    return status;
}
