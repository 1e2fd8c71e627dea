/* profile_json.c: profiles as documents. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json.h"
#include "lab/base/json_load.h"
#include "lab/profile/profile.h"

json_t *lab_profile_json(const lab_profile *profile) {
    json_t *array = json_array();
    for (size_t i = 0; i < profile->count; i++) {
        const lab_profiled *p = &profile->list[i];
        json_t *metrics = json_object();
        char sentence[512];
        for (int m = 0; m < LAB_METRICS; m++)
            json_object_set_new(metrics, lab_metric_rows[m].key, lab_json_number(p->values[m]));
        lab_profile_bottleneck(p, sentence, sizeof sentence);
        json_array_append_new(
            array, json_pack("{s:i, s:s, s:o, s:s}", "launch", p->launch, "kernel", p->kernel,
                             "metrics", metrics, "bottleneck", sentence));
    }
    return array;
}

static bool read_launch(lab_profiled *p, const json_t *object, const char *path,
                        lab_message *why) {
    const char *kernel = json_string_value(json_object_get(object, "kernel"));
    const json_t *metrics = json_object_get(object, "metrics");
    if (!kernel || !json_is_object(metrics))
        return lab_fail(why, "%s: launches: one has no kernel or no metrics", path);
    p->launch = (int)json_integer_value(json_object_get(object, "launch"));
    snprintf(p->kernel, sizeof p->kernel, "%s", kernel);
    for (int m = 0; m < LAB_METRICS; m++) {
        const json_t *value = json_object_get(metrics, lab_metric_rows[m].key);
        p->values[m] = json_is_number(value) ? json_number_value(value) : (double)NAN;
    }
    return true;
}

static bool read_document(lab_profile *profile, const json_t *document, const char *path,
                          lab_message *why) {
    const char *schema = json_string_value(json_object_get(document, "schema"));
    const json_t *launches = json_object_get(document, "launches");
    const size_t count = json_array_size(launches);
    if (!schema || strcmp(schema, "attest-profile-1") != 0)
        return lab_fail(why, "%s: schema: is not that of attest profile --json", path);
    if (count == 0)
        return lab_fail(why, "%s: launches: there is none", path);
    profile->list = calloc(count, sizeof *profile->list);
    if (!profile->list)
        return lab_fail(why, "%s: no memory", path);
    for (; profile->count < count; profile->count++)
        if (!read_launch(&profile->list[profile->count],
                         json_array_get(launches, profile->count), path, why))
            return false;
    return true;
}

bool lab_profile_read_json(lab_profile *profile, const char *path, lab_message *why) {
    *profile = (lab_profile){.count = 0};
    json_t *document = lab_json_load(path, why);
    if (!document)
        return false;
    const bool ok = read_document(profile, document, path, why);
    json_decref(document);
    if (!ok)
        lab_profile_free(profile);
    return ok;
}
