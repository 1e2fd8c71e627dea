/* profile_json.c: profiles as documents. */
#include <math.h>
#include <stdlib.h>

#include "lab/base/json.h"
#include "lab/base/json_load.h"
#include "lab/base/json_node.h"
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

static bool read_launch(lab_profiled *p, const lab_node *launch, lab_message *why) {
    const lab_node metrics = lab_node_member(launch, "metrics");
    json_int_t number = 0;
    if (!lab_node_is_object(launch, why) ||
        !lab_node_copy(launch, "kernel", p->kernel, sizeof p->kernel, why) ||
        !lab_node_count_maybe(launch, "launch", &number, why) ||
        !lab_node_is_object(&metrics, why))
        return false;
    p->launch = (int)number;
    for (int m = 0; m < LAB_METRICS; m++) {
        p->values[m] = (double)NAN; /* null: not measured */
        if (!lab_node_number_maybe(&metrics, lab_metric_rows[m].key, &p->values[m], why))
            return false;
    }
    return true;
}

static bool read_document(lab_profile *profile, const lab_node *document, lab_message *why) {
    const lab_node launches = lab_node_member(document, "launches");
    const size_t count = json_array_size(launches.value);
    if (!lab_node_is_object(document, why) ||
        !lab_node_expect(document, "schema", "attest-profile-1", why) ||
        !lab_node_is_array(&launches, why))
        return false;
    if (count == 0)
        return lab_node_fail(&launches, "is empty", why);
    profile->list = calloc(count, sizeof *profile->list);
    if (!profile->list)
        return lab_fail(why, "%s: no memory", document->file);
    for (; profile->count < count; profile->count++) {
        const lab_node launch = lab_node_element(&launches, profile->count);
        if (!read_launch(&profile->list[profile->count], &launch, why))
            return false;
    }
    return true;
}

bool lab_profile_read_json(lab_profile *profile, const char *path, lab_message *why) {
    *profile = (lab_profile){.count = 0};
    json_t *value = lab_json_load(path, why);
    if (!value)
        return false;
    const lab_node document = lab_node_root(path, value);
    const bool ok = read_document(profile, &document, why);
    json_decref(value);
    if (!ok)
        lab_profile_free(profile);
    return ok;
}
