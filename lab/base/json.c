/* json.c: building and writing JSON documents with jansson. */
#include "lab/base/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>

#include "lab/base/clock.h"
#include "lab/base/machine.h"

json_t *lab_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *lab_json_numbers(const double *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        json_array_append_new(array, lab_json_number(values[i]));
    return array;
}

json_t *lab_json_machine(const att_context *ctx) {
    att_context_info info = {.size = sizeof info};
    struct utsname os;
    if (!ctx || att_context_query(ctx, &info) != ATT_OK || uname(&os) != 0)
        return json_null();
    json_t *machine =
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:s}", "processor", info.name, "device",
                  lab_device_name(info.device), "threads", (int)info.threads, "isa",
                  lab_isa_name(info.isa), "isa_machine", lab_isa_name(info.isa_machine), "os",
                  os.sysname, "os_release", os.release);
    if (machine && info.device == ATT_DEVICE_CUDA)
        json_object_set_new(machine, "gpu", lab_json_gpu(&info));
    return machine;
}

json_t *lab_json_gpu(const att_context_info *info) {
    return json_pack("{s:i, s:s, s:s, s:i, s:i, s:I, s:i}", "index", (int)info->device_index,
                     "name", info->gpu_name, "uuid", info->gpu_uuid, "compute_capability",
                     (int)info->compute_capability, "multiprocessors",
                     (int)info->multiprocessors, "memory_bytes", (json_int_t)info->memory_bytes,
                     "driver_version", (int)info->driver_version);
}

json_t *lab_json_document(const char *schema, const att_context *ctx) {
    char made[32];
    lab_clock_utc(made, sizeof made);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "schema", schema, "made", made, "attest",
                     att_version(), "compiler", lab_compiler(), "machine",
                     lab_json_machine(ctx));
}

bool lab_json_write(json_t *document, FILE *stream, lab_message *why) {
    if (!document)
        return lab_fail(why, "no memory for the JSON document");
    errno = 0;
    const bool ok =
        json_dumpf(document, stream, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) == 0 &&
        fputc('\n', stream) != EOF && fflush(stream) == 0;
    const int code = errno;
    json_decref(document);
    return ok || lab_fail(why, "the JSON document cannot be written: %s",
                          code ? strerror(code) : "out of memory");
}
