/* select.c: the registry and the one selector. */
#include "select/select.h"

#include <stdio.h>

#include "base/error.h"
#include "cpu/features.h"

static const att_kernel_row registry[] = {
#define ATT_CPU_KERNEL(kernel, set, kind, text)                                                \
    {.id = #kernel,                                                                            \
     .summary = text,                                                                          \
     .device = ATT_DEVICE_CPU,                                                                 \
     .isa = ATT_ISA_##set,                                                                     \
     .family = ATT_FAMILY_##kind,                                                              \
     .cpu = &kernel},
#include "kernels/kernels.def"
};

enum { D_MAX = 256 };

size_t att_registry_count(void) {
    return sizeof registry / sizeof registry[0];
}

const att_kernel_row *att_registry_row(size_t i) {
    return &registry[i];
}

#define REFUSE(name, ...)                                                                      \
    do {                                                                                       \
        snprintf(refusal->field, sizeof refusal->field, "%s", name);                           \
        snprintf(refusal->why, sizeof refusal->why, __VA_ARGS__);                              \
        return false;                                                                          \
    } while (0)

/* May the context run this row on this type at all? */
static bool allowed(const att_kernel_row *row, const att_limits *limits, att_dtype dtype,
                    att_refusal *refusal) {
    if (row->isa > limits->isa)
        REFUSE("isa", "needs %s, this context has %s", att_isa_name(row->isa),
               att_isa_name(limits->isa));
    if (row->isa == ATT_ISA_AMX && dtype == ATT_F32 && !limits->amx_f32)
        REFUSE("dtype", "f32 goes to AMX only where ATT_AMX_F32 allows it");
    return true;
}

bool att_row_serves(const att_kernel_row *row, const att_limits *limits, const att_problem *p,
                    att_refusal *refusal) {
    refusal->field[0] = refusal->why[0] = '\0';
    if (!allowed(row, limits, p->dtype, refusal))
        return false;
    if (p->d_qk > D_MAX)
        REFUSE("d_qk", "d_qk=%lld is above %d", (long long)p->d_qk, D_MAX);
    if (p->d_v > D_MAX)
        REFUSE("d_v", "d_v=%lld is above %d", (long long)p->d_v, D_MAX);
    const int64_t group = p->heads_q / p->heads_kv;
    if (row->family == ATT_FAMILY_DECODE && p->seq_q > row->cpu->row_most / group)
        REFUSE("seq_q", "seq_q=%lld x %lld heads a group is above %lld rows",
               (long long)p->seq_q, (long long)group, (long long)row->cpu->row_most);
    return true;
}

const att_kernel_row *att_select_find(const att_limits *limits, const att_problem *p) {
    att_refusal refusal;
    for (size_t i = 0; i < att_registry_count(); i++)
        if (att_row_serves(&registry[i], limits, p, &refusal))
            return &registry[i];
    return NULL;
}

att_status att_select(const att_kernel_row **out, const att_limits *limits,
                      const att_problem *p) {
    *out = att_select_find(limits, p);
    if (*out)
        return ATT_OK;
    /* The nearest is the best kernel for any rows that the context allows; the last row always is. */
    att_refusal refusal;
    size_t near = 0;
    while (registry[near].family != ATT_FAMILY_FWD ||
           !allowed(&registry[near], limits, p->dtype, &refusal))
        near++;
    att_row_serves(&registry[near], limits, p, &refusal);
    return att_fail(ATT_E_UNSUPPORTED, refusal.field,
                    "no kernel serves this problem; nearest is %s: %s", registry[near].id,
                    refusal.why);
}

void att_select_explain(const att_limits *limits, const att_problem *p, const char *detail,
                        char *buf, size_t n) {
    size_t used = 0;
    bool chosen = false;
    if (n)
        buf[0] = '\0';
    for (size_t i = 0; i < att_registry_count() && used < n; i++) {
        const att_kernel_row *row = &registry[i];
        att_refusal refusal;
        int wrote;
        if (!att_row_serves(row, limits, p, &refusal))
            wrote = snprintf(buf + used, n - used, "refused  %-20s %s: %s\n", row->id,
                             refusal.field, refusal.why);
        else if (!chosen)
            wrote = snprintf(buf + used, n - used, "chosen   %-20s %s\n", row->id, detail);
        else
            wrote = snprintf(buf + used, n - used,
                             "passed   %-20s serves it too, but stands below the chosen one\n",
                             row->id);
        chosen = chosen || refusal.field[0] == '\0';
        used += (size_t)wrote;
    }
}
