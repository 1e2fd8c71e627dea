/* standing.c: the goals. */
#include "lab/report/standing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/problem/spec.h"
#include "lab/report/report_view.h"

const char lab_goals_names[] =
    "flash hopper cpu features bias masks windows lengths pages chunk few_heads decode_sweep "
    "backward experts parallel float32 cpu_backward cpu_experts all none";

/* The bits of a name: the names are in the order of the bits. False if it is unknown. */
static bool bits_of(unsigned *bits, const char *name, size_t length) {
    unsigned bit = 1;
    for (const char *at = lab_goals_names; *at; at += strspn(at, " "), bit <<= 1) {
        const size_t own = strcspn(at, " ");
        if (own == length && strncmp(at, name, length) == 0) {
            *bits |= bit <= LAB_GOALS_ALL ? bit : bit == LAB_GOALS_ALL + 1 ? LAB_GOALS_ALL : 0;
            return true;
        }
        at += own;
    }
    return false;
}

bool lab_goals_parse(unsigned *bits, const char *list, lab_message *why) {
    *bits = 0;
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        if (!bits_of(bits, at, length))
            return lab_fail(why, "'%.*s' is not among %s", (int)(length < 40 ? length : 40), at,
                            lab_goals_names);
        at += length;
        if (!*at)
            return true;
    }
}

bool lab_standing_is_old(const lab_report *report, const lab_report_timing *t) {
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *later = &report->timings[i];
        if (later->file > t->file && strcmp(later->problem, t->problem) == 0 &&
            strcmp(later->variant, t->variant) == 0 && strcmp(later->group, t->group) == 0 &&
            strcmp(later->subject, t->subject) == 0)
            return true;
    }
    return false;
}

bool lab_standing_counts(const lab_standing *j, const lab_report_timing *t) {
    return strcmp(t->mode, j->mode) == 0 && strcmp(t->timer, "wall") != 0 &&
           !lab_standing_is_old(j->report, t);
}

/* ---------------------------------------------------------------------------- cells */

/* Speeds of some cells as multiples of a rival's: their mean, and the worst with its label. */
typedef struct cells {
    double log_sum, worst;
    size_t count;
    const lab_report_timing *at;
} cells;

static void add_cell(cells *c, double speed, const lab_report_timing *t) {
    if (c->count == 0 || speed < c->worst) {
        c->worst = speed;
        c->at = t;
    }
    c->log_sum += log(speed);
    c->count++;
}

static double mean_of(const cells *c) {
    return exp(c->log_sum / (double)c->count);
}

static bool in_list(const char *word, const char *const *list) {
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static cells cells_of(const lab_standing *j, const char *const *groups, const char *rival) {
    cells c = {.count = 0};
    for (size_t i = 0; i < j->report->pair_count; i++) {
        const lab_report_pair *pair = &j->report->pairs[i];
        const lab_report_timing *theirs = &j->report->timings[pair->theirs];
        if (lab_standing_counts(j, theirs) && in_list(theirs->group, groups) &&
            strcmp(theirs->rival, rival) == 0)
            add_cell(&c, pair->speed, theirs);
    }
    return c;
}

bool lab_standing_add(lab_standing *j, lab_report *report, lab_goal goal,
                      const lab_report_timing *at, lab_message *why) {
    char label[512] = "";
    lab_goal *goals = lab_report_grow(j->goals, j->goal_count, sizeof *goals, why);
    if (!goals)
        return false;
    j->goals = goals;
    if (at)
        lab_report_whole_label(label, sizeof label, at);
    goal.holds = goal.cells > 0 &&
                 (goal.at_most ? goal.found <= goal.wanted : goal.found >= goal.wanted);
    goal.at = lab_report_text(report, "%s", label);
    goals[j->goal_count++] = goal;
    return true;
}

static bool least(lab_standing *j, lab_report *report, const char *text, double found,
                  double wanted, const lab_report_timing *at, lab_message *why) {
    const lab_goal goal = {.text = text, .found = found, .wanted = wanted, .cells = 1};
    return lab_standing_add(j, report, goal, at, why);
}

/* ---------------------------------------------------------------------------- flash */

/* The smallest fraction of the copy rate that decoding reaches on large problems; 0 if
 * unknown. */
static double least_share(const lab_standing *j, const lab_report_timing **at) {
    double share = 0.0;
    for (size_t i = 0; i < j->report->timing_count; i++) {
        const lab_report_timing *t = &j->report->timings[i];
        const double rate = j->report->files[t->file].copy_bytes;
        lab_spec spec;
        lab_message ignored;
        if (!t->ours || t->samples.count == 0 || !lab_standing_counts(j, t) || !(rate > 0.0) ||
            strcmp(t->group, "decode") != 0 || !lab_spec_parse(&spec, t->problem, &ignored) ||
            spec.problem.batch < 8 || spec.problem.seq_k < 8192)
            continue;
        const double own = t->bytes / (1e-9 * t->ns.median) / rate;
        if (share == 0.0 || own < share) {
            share = own;
            *at = t;
        }
    }
    return share;
}

static bool judge_flash(lab_standing *j, lab_report *report, lab_message *why) {
    static const char *const table[] = {"forward", "seed", NULL}, *const of_decode[] = {
                                                                      "decode", NULL};
    const cells forward = cells_of(j, table, "flash"), decode = cells_of(j, of_decode, "flash");
    const lab_report_timing *at = NULL;
    const double share = least_share(j, &at);
    return (forward.count == 0 ||
            (least(j, report, "forward and seed, worst cell against flash", forward.worst, 1.0,
                   forward.at, why) &&
             least(j, report, "forward and seed, geometric mean against flash",
                   mean_of(&forward), 1.15, NULL, why))) &&
           (decode.count == 0 || least(j, report, "decode, geometric mean against flash",
                                       mean_of(&decode), 1.5, NULL, why)) &&
           (share == 0.0 ||
            least(j, report, "decode at B >= 8, Sk >= 8192, least share of the copy rate",
                  share, 0.85, at, why));
}

/* --------------------------------------------------------------------------- Hopper */

/* The required speed of a cell as a multiple of the best rival's; 0 if there is no
 * requirement. */
static double hopper_wanted(const char *group, const att_problem *p) {
    static const char *const tables[] = {"forward", "fp16", "gqa", NULL};
    if (in_list(group, tables)) {
        if (p->d_qk == 64)
            return p->seq_q <= 1024 ? 1.12 : 1.03;
        if (p->causal != ATT_CAUSAL_NONE)
            return p->seq_q <= 2048 ? 1.04 : 1.0;
        return p->seq_q <= 1024 ? 1.05 : 1.02;
    }
    if (strcmp(group, "seed") == 0)
        return p->seq_q <= 512 ? 1.4 : 1.1;
    if (strcmp(group, "decode") == 0)
        return p->batch == 1 && p->seq_k <= 8192 ? 1.5 : 1.0;
    return strcmp(group, "dims") == 0 ? 1.0 : 0.0;
}

/* attest's speed as a multiple of the fastest of these rivals; 0 if none was timed. */
static double against_best(const lab_standing *j, const lab_report_timing *ours) {
    static const char *const rivals[] = {"cudnn", "flash", "fa3", NULL};
    double speed = 0.0;
    for (size_t i = 0; i < j->report->pair_count; i++) {
        const lab_report_pair *pair = &j->report->pairs[i];
        if (&j->report->timings[pair->ours] == ours &&
            in_list(j->report->timings[pair->theirs].rival, rivals) &&
            (speed == 0.0 || pair->speed < speed))
            speed = pair->speed;
    }
    return speed;
}

static bool judge_hopper(lab_standing *j, lab_report *report, lab_message *why) {
    static const char *const groups[] = {"forward", "fp16", "gqa", "dims", "seed", "decode"};
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        cells speeds = {.count = 0}, over = {.count = 0};
        for (size_t i = 0; i < report->timing_count; i++) {
            const lab_report_timing *t = &report->timings[i];
            lab_spec spec;
            lab_message ignored;
            if (!t->ours || !lab_standing_counts(j, t) || strcmp(t->group, groups[g]) != 0 ||
                !lab_spec_parse(&spec, t->problem, &ignored))
                continue;
            const double speed = against_best(j, t),
                         wanted = hopper_wanted(t->group, &spec.problem);
            if (!(speed > 0.0) || !(wanted > 0.0))
                continue;
            add_cell(&speeds, speed, t);
            add_cell(&over, speed / wanted, t);
        }
        if (over.count == 0)
            continue;
        const char *text =
            lab_report_text(report,
                            "%s, worst cell over its own goal against the best rival "
                            "(geometric mean %.3f)",
                            groups[g], mean_of(&speeds));
        if (!least(j, report, text, over.worst, 1.0, over.at, why))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------ CPU */

/* attest's own timing of the same problem without its mask, in the same run; the number of
 * timings if there is none. */
static size_t without_mask(const lab_report *report, const lab_report_timing *t) {
    const char *mask =
        strstr(t->problem, ",causal"); /* the line is in the form of lab_spec_print() */
    if (!mask)
        return report->timing_count;
    const char *rest = mask + 1 + strcspn(mask + 1, ",");
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *other = &report->timings[i];
        const size_t before = (size_t)(mask - t->problem);
        if (other->ours && other->file == t->file && other->samples.count > 0 &&
            strncmp(other->problem, t->problem, before) == 0 &&
            strcmp(other->problem + before, rest) == 0 &&
            strcmp(other->variant, t->variant) == 0)
            return i;
    }
    return report->timing_count;
}

static bool judge_mask(lab_standing *j, lab_report *report, lab_message *why) {
    double most = 0.0;
    const lab_report_timing *at = NULL;
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *t = &report->timings[i];
        lab_spec spec;
        lab_message ignored;
        lab_report_pair pair;
        if (!t->ours || !lab_standing_counts(j, t) || t->samples.count == 0 ||
            strcmp(t->timer, "cpu") != 0 || !lab_spec_parse(&spec, t->problem, &ignored) ||
            spec.problem.causal == ATT_CAUSAL_NONE || spec.problem.seq_q < 2048)
            continue;
        const size_t full = without_mask(report, t);
        if (full == report->timing_count)
            continue;
        if (!lab_report_hold(report, &pair, i, full, why))
            return false;
        if (1.0 / pair.speed > most) {
            most = 1.0 / pair.speed;
            at = t;
        }
    }
    const lab_goal goal = {.text = "causal over full time at S >= 2048, worst",
                           .found = most,
                           .wanted = 0.6,
                           .at_most = true,
                           .cells = 1};
    return !at || lab_standing_add(j, report, goal, at, why);
}

static bool judge_cpu(lab_standing *j, lab_report *report, lab_message *why) {
    static const struct {
        const char *group;
        double mean;
    } wanted[] = {{"f32", 1.15}, {"bf16", 2.0}, {"fp16", 2.0}, {"decode", 3.0}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const char *const groups[] = {wanted[i].group, NULL};
        const cells c = cells_of(j, groups, "default");
        const char *mean = lab_report_text(report, "%s, geometric mean against PyTorch",
                                           wanted[i].group),
                   *worst = lab_report_text(report, "%s, worst cell against PyTorch",
                                            wanted[i].group);
        if (c.count > 0 && (!least(j, report, mean, mean_of(&c), wanted[i].mean, NULL, why) ||
                            !least(j, report, worst, c.worst, 1.0, c.at, why)))
            return false;
    }
    return judge_mask(j, report, why);
}

/* ------------------------------------------------------------------------------ all */

static const char *mode_of(const lab_report *report) {
    const char *first = NULL;
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *t = &report->timings[i];
        if (t->samples.count == 0)
            continue;
        if (strcmp(t->mode, "sustained") == 0)
            return t->mode;
        first = first ? first : t->mode;
    }
    return first ? first : "warm";
}

bool lab_standing_of(lab_standing *out, lab_report *report, unsigned goals, lab_message *why) {
    *out = (lab_standing){.report = report, .mode = mode_of(report)};
    for (size_t i = 0; i < report->timing_count; i++)
        out->wrong += report->timings[i].ours && *report->timings[i].failure;
    const bool ok = (!(goals & LAB_GOALS_FLASH) || judge_flash(out, report, why)) &&
                    (!(goals & LAB_GOALS_HOPPER) || judge_hopper(out, report, why)) &&
                    (!(goals & LAB_GOALS_CPU) || judge_cpu(out, report, why)) &&
                    lab_standing_rows(out, report, goals, why) && lab_standing_sweep(out, why);
    if (!ok)
        lab_standing_free(out);
    return ok;
}

void lab_standing_free(lab_standing *standing) {
    free(standing->goals);
    free(standing->cliffs);
    *standing = (lab_standing){.report = NULL};
}

bool lab_standing_holds(const lab_standing *j) {
    for (size_t i = 0; i < j->goal_count; i++)
        if (!j->goals[i].holds && j->goals[i].cells > 0)
            return false;
    return j->cliff_count == 0 && j->wrong == 0;
}
