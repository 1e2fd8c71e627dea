/* python_goals.c: records goals, and summarises the samples of a member. */
#include "lab/report/python_goals.h"

#include <stdlib.h>

#include "lab/base/json.h"

bool lab_python_at_most(lab_python_judge *j, const char *goal, double found, double wanted,
                        const char *at) {
    const bool holds = found <= wanted;
    j->holds = j->holds && holds;
    json_array_append_new(j->goals,
                          json_pack("{s:s, s:o, s:o, s:b, s:b, s:s}", "goal", goal, "found",
                                    lab_json_number(found), "wanted", lab_json_number(wanted),
                                    "at_most", true, "holds", holds, "at", at));
    return holds;
}

const char *lab_python_word(bool holds) {
    return holds ? "holds" : "MISSED";
}

bool lab_python_summary(lab_summary *out, const lab_node *object, const char *name,
                        lab_message *why) {
    double *values;
    size_t count;
    if (!lab_node_times(object, name, &values, &count, why))
        return false;
    const bool ok = lab_summarise(out, values, count, 0, why);
    free(values);
    return ok;
}
