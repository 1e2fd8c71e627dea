/* report_roofs.c: the limits of a timing's device: from its file in devices/ for a GPU, from
 * the run itself for a CPU. */
#include <stdio.h>
#include <string.h>

#include "lab/plan/plan_device.h"
#include "lab/report/report_page.h"

static size_t add_roof(lab_page_roof *roofs, size_t count, const char *what, double rate,
                       bool of_memory, bool measured) {
    if (rate > 0.0 && count < LAB_PAGE_ROOFS)
        roofs[count++] = (lab_page_roof){
            .what = what, .rate = rate, .of_memory = of_memory, .measured = measured};
    return count;
}

static size_t gpu_roofs(const char *name, lab_page_roof *roofs) {
    lab_device device;
    size_t n = 0;
    if (!lab_device_named(&device, name))
        return 0;
    const lab_rate *rates = device.rates;
    n = add_roof(roofs, n, "tensor cores", rates[LAB_RATE_TENSOR].value, false, false);
    n = add_roof(roofs, n, "memory", rates[LAB_RATE_MEMORY].value, true, false);
    n = add_roof(roofs, n, "matrix product, measured", rates[LAB_RATE_TENSOR_SEEN].value, false,
                 true);
    n = add_roof(roofs, n, "mma.sync, measured", rates[LAB_RATE_MMA_SEEN].value, false, true);
    return add_roof(roofs, n, "memory, measured", rates[LAB_RATE_MEMORY_SEEN].value, true,
                    true);
}

static size_t cpu_roofs(const json_t *peaks, lab_page_roof *roofs) {
    static const struct {
        const char *field, *name;
        bool of_memory;
    } rates[] = {{"amx_gflops", "AMX tiles, measured", false},
                 {"fma_gflops", "float32 FMA, measured", false},
                 {"l3_gbs", "third-level cache, measured", true},
                 {"dram_gbs", "memory, measured", true}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        n = add_roof(roofs, n, rates[i].name,
                     1e9 * json_number_value(json_object_get(peaks, rates[i].field)),
                     rates[i].of_memory, true);
    return n;
}

size_t lab_page_roofs(const lab_report *report, const lab_report_timing *timing,
                      lab_page_roof roofs[LAB_PAGE_ROOFS]) {
    const lab_report_file *file = &report->files[timing->file];
    char threads[16];
    if (file->kind != LAB_REPORT_CPU_TORCH)
        return gpu_roofs(file->device, roofs);
    snprintf(threads, sizeof threads, "%d", timing->threads);
    return cpu_roofs(json_object_get(json_object_get(file->document, "peaks"), threads), roofs);
}
