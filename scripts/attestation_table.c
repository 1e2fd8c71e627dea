/* attestation_table.c: tables for the documentation about the attestations under evidence/.
 *
 *     attestation_table FOLDER summary          one line per device, and what has no evidence
 *     attestation_table FOLDER kernels DEVICE   one row per kernel
 *     attestation_table FOLDER rates DEVICE KERNEL GOAL
 *                                               one row per timed problem of the kernels whose names begin with
 *                                               KERNEL: its bytes per second, and its share of the rate at which
 *                                               the device reads its memory, which should be GOAL per cent
 *
 * Prints Markdown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_load.h"
#include "lab/base/json_node.h"
#include "lab/evidence/evidence.h"
#include "lab/plan/plan_floor.h"

static void fail(const char *text) {
    fprintf(stderr, "attestation_table: %s\n", text);
    exit(1);
}

static void put_device(const lab_evidence *evidence, const char *place) {
    size_t kernels = 0, problems = 0, is_signed = 0;
    double worst = 0.0;
    const char *device = place;
    for (size_t i = 0; i < evidence->count; i++) {
        const lab_exhibit *e = &evidence->exhibits[i];
        if (strcmp(e->place, place) != 0)
            continue;
        if (!e->sound)
            fail(e->why.text);
        kernels++;
        is_signed += e->is_signed;
        problems += e->attestation.verified;
        worst = e->attestation.worst_share > worst ? e->attestation.worst_share : worst;
        device = e->attestation.device;
    }
    printf("- %s (`evidence/%s/attestations`): %zu kernels, %zu problems verified, the largest "
           "error %.0f %% of its bar, ",
           device, place, kernels, problems, 100.0 * worst);
    if (is_signed == 0)
        puts("unsigned.");
    else
        printf("%zu signed.\n", is_signed);
}

static bool has_evidence(const lab_evidence *evidence, const char *kernel) {
    for (size_t i = 0; i < evidence->count; i++)
        if (strcmp(evidence->exhibits[i].kernel, kernel) == 0)
            return true;
    return false;
}

/* Rows that are on although no device has evidence for them, and rows that are off. */
static void put_rest(const lab_evidence *evidence) {
    size_t bare = 0, off = 0, partly = 0;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        char missing[64];
        lab_kernel_unattested_on(row, missing, sizeof missing);
        const bool none = row->cuda && !att_row_attested_targets(row);
        off += row->unattested || none;
        partly += *missing && !none && !row->unattested;
        bare += !row->unattested && !none && !(row->cuda && row->cuda->role == ATT_ROLE_RUNG) &&
                !has_evidence(evidence, row->id);
    }
    if (bare > 0)
        printf(
            "- %zu production kernel%s no attestation on any device; `attest info --all` shows "
            "which.\n",
            bare, bare == 1 ? " has" : "s have");
    printf(
        "- %zu kernels are for architectures without evidence alone, or marked unattested: off "
        "by default. %zu more are attested on some of their architectures, and off on the "
        "others. `attest info --all` shows which.\n",
        off, partly);
}

/* Print a timed problem of a kernel, the `number`-th. */
typedef void put_timed(size_t number, const char *spec, double median_ns, const void *state);

static void each_timed(const lab_exhibit *e, put_timed *put, const void *state) {
    lab_message why;
    json_t *statement = lab_json_load(e->path, &why);
    if (!statement)
        fail(why.text);
    const lab_node root = lab_node_root(e->path, statement);
    const lab_node predicate = lab_node_member(&root, "predicate");
    const lab_node timed = lab_node_member(&predicate, "timed");
    for (size_t i = 0; i < json_array_size(timed.value); i++) {
        const lab_node entry = lab_node_element(&timed, i);
        const lab_node problem = lab_node_member(&entry, "problem");
        const char *spec = NULL;
        double median = 0.0;
        if (!lab_node_text(&problem, "spec", &spec, &why) ||
            !lab_node_time(&entry, "median_ns", &median, &why))
            fail(why.text);
        put(i, spec, median, state);
    }
    json_decref(statement);
}

static void put_time(size_t number, const char *spec, double median_ns, const void *state) {
    (void)state;
    printf("%s `%s` %.2f", number ? "," : "", spec, median_ns / 1e3);
}

static void put_kernels(const lab_evidence *evidence, const char *place) {
    size_t found = 0;
    for (size_t i = 0; i < evidence->count; i++) {
        const lab_exhibit *e = &evidence->exhibits[i];
        const lab_attestation *a = &e->attestation;
        if (strcmp(e->place, place) != 0)
            continue;
        if (!e->sound)
            fail(e->why.text);
        if (found++ == 0)
            puts("| kernel | problems verified | largest error, of its bar | medians, µs "
                 "|\n|---|---|---|---|");
        printf("| `%s` | %zu | %.0f %% |", a->kernel, a->verified, 100.0 * a->worst_share);
        each_timed(e, put_time, NULL);
        puts(" |");
    }
    if (found == 0)
        puts("There are none yet.");
}

/* What a problem is compared with: bytes per second, and the share that is the goal. */
typedef struct memory_goal {
    double rate, share;
} memory_goal;

static void put_rate(size_t number, const char *line, double median_ns, const void *state) {
    const memory_goal *goal = state;
    lab_spec spec;
    lab_work work;
    lab_message why;
    (void)number;
    if (!lab_spec_parse(&spec, line, &why))
        fail(why.text);
    lab_work_of(&work, &spec);
    const double rate = work.bytes / (median_ns * 1e-9), share = rate / goal->rate;
    printf("| `%s` | %.1f | %.2f | %.1f %% | %s |\n", line, median_ns / 1e3, rate / 1e12,
           100.0 * share, share >= goal->share ? "met" : "missed");
}

static void put_rates(const lab_evidence *evidence, const char *place, const char *kernel,
                      const char *percent) {
    lab_device device;
    lab_message why;
    if (!lab_device_read(&device, place, &why))
        fail(why.text);
    const memory_goal goal = {.rate = device.rates[LAB_RATE_MEMORY_SEEN].value,
                              .share = strtod(percent, NULL) / 100.0};
    if (!(goal.rate > 0.0 && goal.share > 0.0))
        fail("the device has no measured rate, or the goal is not above 0");
    printf("| problem | µs | TB/s | of %.3f TB/s | %s %% |\n|---|---:|---:|---:|---|\n",
           goal.rate / 1e12, percent);
    for (size_t i = 0; i < evidence->count; i++) {
        const lab_exhibit *e = &evidence->exhibits[i];
        if (strcmp(e->place, place) == 0 && strncmp(e->kernel, kernel, strlen(kernel)) == 0)
            each_timed(e, put_rate, &goal);
    }
}

int main(int argc, char **argv) {
    const bool summary = argc == 3 && strcmp(argv[2], "summary") == 0;
    const bool rates = argc == 6 && strcmp(argv[2], "rates") == 0;
    if (!summary && !rates && !(argc == 4 && strcmp(argv[2], "kernels") == 0)) {
        fputs("usage: attestation_table FOLDER summary | kernels DEVICE | rates DEVICE KERNEL "
              "GOAL\n",
              stderr);
        return 2;
    }
    lab_evidence evidence;
    lab_message why;
    if (!lab_evidence_read(&evidence, argv[1], &why))
        fail(why.text);
    if (rates)
        put_rates(&evidence, argv[3], argv[4], argv[5]);
    else if (!summary)
        put_kernels(&evidence, argv[3]);
    for (size_t i = 0; summary && i < lab_evidence_places(&evidence); i++)
        put_device(&evidence, lab_evidence_place(&evidence, i));
    if (summary)
        put_rest(&evidence);
    lab_evidence_free(&evidence);
    return 0;
}
