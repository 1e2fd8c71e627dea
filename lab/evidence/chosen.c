/* chosen.c: asks the selector about the problems of the suites. */
#include "lab/evidence/chosen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/select.h"
#include "lab/plan/plan_device.h"
#include "lab/problem/lab_operation.h"

/* If no problem would be given to the kernel, this many that it supports are timed. */
enum { FORCED_MOST = 2, SUITES = 2 + LAB_CHOSEN_SUITES };

/* Choices depend on a kernel only through its device and instruction set, and a device has many
 * kernels. */
typedef struct lab_choices {
    att_cuda_limits gpu;
    att_isa isa;
    bool amx_f32;
    size_t first[SUITES + 1]; /* where the problems of each suite begin in: */
    const att_kernel_row **rows;
    bool *asked;
} lab_choices;

static void list_suites(const lab_suite_set *set, const lab_suite *suites[SUITES]) {
    suites[0] = &set->checked;
    for (size_t i = 0; i < LAB_CHOSEN_SUITES; i++)
        suites[1 + i] = &set->chosen[i];
    suites[SUITES - 1] = &set->timed;
}

static bool make_choices(lab_suite_set *set, lab_message *why) {
    const lab_suite *suites[SUITES];
    lab_choices *known = set->known = calloc(1, sizeof *known);
    list_suites(set, suites);
    for (size_t i = 0; known && i < SUITES; i++)
        known->first[i + 1] = known->first[i] + suites[i]->count;
    if (known) {
        known->rows = calloc(known->first[SUITES] + 1, sizeof *known->rows);
        known->asked = calloc(known->first[SUITES] + 1, sizeof *known->asked);
    }
    return (known && known->rows && known->asked) || lab_fail(why, "no memory for the suites");
}

static void free_choices(lab_choices *known) {
    if (!known)
        return;
    free(known->rows);
    free(known->asked);
    free(known);
}

bool lab_suite_set_read(lab_suite_set *set, bool gpu, const char *checked, const char *timed,
                        lab_message *why) {
    static const char *const chosen[LAB_CHOSEN_SUITES] = {"edge", "gpu"};
    const size_t further = checked ? 0 : gpu ? 2 : 1;
    *set = (lab_suite_set){.checked = {.count = 0}};
    bool ok = lab_suite_read(&set->checked, checked ? checked : "rows", why) &&
              lab_suite_read(&set->timed,
                             timed ? timed
                             : gpu ? LAB_TIMED_GPU
                                   : LAB_TIMED_CPU,
                             why);
    for (size_t i = 0; ok && i < further; i++)
        ok = lab_suite_read(&set->chosen[i], chosen[i], why);
    ok = ok && make_choices(set, why);
    if (!ok)
        lab_suite_set_free(set);
    return ok;
}

void lab_suite_set_free(lab_suite_set *set) {
    lab_suite_free(&set->checked);
    for (size_t i = 0; i < LAB_CHOSEN_SUITES; i++)
        lab_suite_free(&set->chosen[i]);
    lab_suite_free(&set->timed);
    free_choices(set->known);
    set->known = NULL;
}

/* The shared memory per block on GPUs that no device file describes. */
static int shared_of(int cc) {
    return cc == 90 ? 227 * 1024 : cc == 80 ? 163 * 1024 : 99 * 1024;
}

bool lab_chooser_set_gpu(lab_chooser *c, const char *gpu_name, int cc, int sms) {
    lab_device file;
    if (lab_device_named(&file, gpu_name)) {
        c->gpu = file.limits;
        return file.limits.cc == cc && file.limits.sms == sms;
    }
    c->gpu = (att_cuda_limits){.cc = cc, .sms = sms, .shared_per_block = shared_of(cc)};
    return true;
}

bool lab_chooser_amx_f32(void) {
    const char *value = getenv("ATTEST_AMX_F32");
    return value && *value && strcmp(value, "0") != 0;
}

bool lab_row_helps(const att_kernel_row *row) {
    return row && row->cuda && att_role_helps(row->cuda->role);
}

/* The limits of a context for this kernel: see open_context() in certify.c. */
static att_limits limits_of(const lab_chooser *c) {
    return (att_limits){.device = c->row->device,
                        .isa = c->row->isa,
                        .amx_f32 = c->amx_f32,
                        .gpu = c->row->cuda ? &c->gpu : NULL,
                        .allow_unattested = true};
}

bool lab_chooser_could_run(const lab_chooser *c) {
    const att_limits limits = limits_of(c);
    return att_row_available(c->row, &limits);
}

static bool makes_sense(const lab_spec *spec) {
    _Alignas(16) char extents[ATT_EXTENTS_MAX];
    const lab_operation *operation = spec->operation;
    return operation->library->check(operation->problem(spec), extents) == ATT_OK;
}

bool lab_chooser_serves(const lab_chooser *c, const lab_spec *spec) {
    att_limits limits = limits_of(c);
    att_refusal refusal;
    if (lab_row_helps(c->row))
        return lab_chooser_chosen(c, spec);
    snprintf(limits.kernel, sizeof limits.kernel, "%s", c->row->id);
    return makes_sense(spec) && att_row_serves(c->row, &limits, spec->operation->library,
                                               spec->operation->problem(spec), &refusal);
}

const att_kernel_row *lab_chooser_choice(const lab_chooser *c, const lab_spec *spec) {
    const att_limits limits = limits_of(c);
    return makes_sense(spec) ? att_select_find(&limits, spec->operation->library,
                                               spec->operation->problem(spec))
                             : NULL;
}

/* Whether the problem, for which the library chooses `choice`, is one for the kernel. */
static bool is_for(const lab_chooser *c, const att_kernel_row *choice, const lab_spec *spec) {
    if (!choice || !lab_row_helps(c->row))
        return choice == c->row;
    return choice->family->operation == c->row->family->operation &&
           c->row->family->steps_in(c->row, choice, spec->operation->problem(spec));
}

bool lab_chooser_chosen(const lab_chooser *c, const lab_spec *spec) {
    return is_for(c, lab_chooser_choice(c, spec), spec);
}

/* The same for problem `i` of suite `s` of the set; the selector is asked once per device. */
static bool is_chosen(const lab_chooser *c, const lab_suite_set *set, size_t s, size_t i) {
    const lab_suite *suites[SUITES];
    lab_choices *known = set->known;
    const size_t at = known->first[s] + i;
    list_suites(set, suites);
    if (memcmp(&known->gpu, &c->gpu, sizeof c->gpu) != 0 || known->isa != c->row->isa ||
        known->amx_f32 != c->amx_f32) {
        memset(known->asked, 0, known->first[SUITES] * sizeof *known->asked);
        known->gpu = c->gpu;
        known->isa = c->row->isa;
        known->amx_f32 = c->amx_f32;
    }
    if (!known->asked[at]) {
        known->asked[at] = true;
        known->rows[at] = lab_chooser_choice(c, &suites[s]->specs[i]);
    }
    return is_for(c, known->rows[at], &suites[s]->specs[i]);
}

const lab_spec *lab_chooser_next_checked(const lab_chooser *c, const lab_suite_set *set,
                                         size_t *at) {
    const lab_suite *suites[SUITES];
    list_suites(set, suites);
    for (size_t first = 0, s = 0; s + 1 < SUITES; first += suites[s++]->count)
        for (; *at < first + suites[s]->count; ++*at) {
            const lab_spec *spec = &suites[s]->specs[*at - first];
            if (s == 0 && !lab_row_helps(c->row) ? lab_chooser_serves(c, spec)
                                                 : is_chosen(c, set, s, *at - first)) {
                ++*at;
                return spec;
            }
        }
    return NULL;
}

size_t lab_chooser_timed(const lab_chooser *c, const lab_suite_set *set,
                         const lab_spec **list) {
    const lab_suite *suite = &set->timed;
    size_t count = 0;
    for (size_t i = 0; i < suite->count; i++)
        if (is_chosen(c, set, SUITES - 1, i))
            list[count++] = &suite->specs[i];
    if (count > 0)
        return count;
    for (size_t i = 0; i < suite->count && count < FORCED_MOST; i++)
        if (lab_chooser_serves(c, &suite->specs[i]))
            list[count++] = &suite->specs[i];
    return count;
}
