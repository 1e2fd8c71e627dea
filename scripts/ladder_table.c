/* ladder_table.c: the tables of docs/ladder.md, from the measurements.
 *
 *     ladder_table [--headers] ladder.json ladder_profile.csv
 *
 * The first file is from `attest bench --suite seed --kernel ...`, the last from `attest
 * profile --csv` for every rung (scripts/ladder_evidence.sh). Prints Markdown, or one line
 * per rung for the headers of the kernels. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/measure/results.h"

/* A rung is the first part of a kernel's id. */
static const char *const rungs[] = {"naive", "tiled",     "vector", "unfused",
                                    "mma",   "mma_async", "fwd"};
enum { RUNGS = sizeof rungs / sizeof rungs[0], PROBLEMS_MAX = 32 };

static const char profiled[] = "b2h8s512d64,fp16";

typedef struct problem {
    const char *spec;
    double ns[RUNGS], floor_ns;
} problem;

static problem problems[PROBLEMS_MAX];
static size_t problem_count;
static const char *gpu;

/* Of the longest launch of a rung. */
typedef struct profile {
    int launch;
    double time;
    double tensor, fma; /* percent of the time that these units are busy */
    double worst;       /* cycles that a warp waits for `stall`, per instruction issued */
    const char *stall;
} profile;

static profile profiles[RUNGS];

static int rung_of(const char *kernel) {
    const char *end = strstr(kernel, "_sm80");
    for (int i = 0; end && i < RUNGS; i++)
        if (strlen(rungs[i]) == (size_t)(end - kernel) &&
            strncmp(rungs[i], kernel, (size_t)(end - kernel)) == 0)
            return i;
    return -1;
}

static problem *find_problem(const char *spec) {
    for (size_t i = 0; i < problem_count; i++)
        if (strcmp(problems[i].spec, spec) == 0)
            return &problems[i];
    return NULL;
}

static problem *problem_of(const char *spec) {
    problem *known = find_problem(spec);
    if (known || problem_count == PROBLEMS_MAX)
        return known;
    problems[problem_count].spec = spec;
    return &problems[problem_count++];
}

static bool read_bench(const lab_results *bench) {
    for (size_t i = 0; i < bench->count; i++) {
        const lab_result *r = &bench->results[i];
        problem *p = problem_of(r->problem);
        const int rung = rung_of(r->kernel);
        if (!p || rung < 0)
            continue;
        p->ns[rung] = r->median_ns;
        p->floor_ns = r->floor_ns;
    }
    gpu = *bench->gpu ? bench->gpu : "a GPU";
    return find_problem(profiled) != NULL;
}

/* The meaning of each stall. */
static const struct {
    const char *metric, *text;
} stalls[] = {{"long_scoreboard", "latency of global memory"},
              {"short_scoreboard", "latency of shared memory"},
              {"barrier", "barriers"},
              {"wait", "instructions that depend on each other"},
              {"math_pipe_throttle", "the arithmetic pipe"},
              {"mio_throttle", "the queue to shared memory"},
              {"lg_throttle", "the queue to global memory"}};

static void read_metric(profile *p, const char *metric, double value) {
    if (strcmp(metric, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active") == 0)
        p->tensor = value;
    if (strcmp(metric, "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active") == 0)
        p->fma = value;
    for (size_t i = 0; i < sizeof stalls / sizeof stalls[0]; i++) {
        char name[128];
        snprintf(name, sizeof name,
                 "smsp__average_warps_issue_stalled_%s_per_issue_active.ratio",
                 stalls[i].metric);
        if (strcmp(metric, name) == 0 && value > p->worst) {
            p->worst = value;
            p->stall = stalls[i].text;
        }
    }
}

/* The next field of a line, quoted or not; fields are split in place. */
static char *next_part(char **rest) {
    char *part = *rest;
    char *end = strchr(part, ',');
    if (*part == '"') {
        end = strchr(++part, '"');
        if (end)
            *end++ = '\0';
    }
    if (end && *end)
        *end++ = '\0';
    *rest = end ? end : part + strlen(part);
    return part;
}

/* Thousands are separated by commas. */
static double number_of(const char *text) {
    double number = 0.0, unit = 0.0;
    for (; *text && *text != '\n'; text++)
        if (*text == '.')
            unit = 1.0;
        else if (*text >= '0' && *text <= '9') {
            number = number * 10.0 + (*text - '0');
            unit *= 10.0;
        }
    return unit > 0.0 ? number / unit : number;
}

/* Called once for the times, to find the longest launch of every rung, then for its other
 * metrics. */
static void read_profile(FILE *file, bool times) {
    char line[1024];
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        char *rest = line;
        const char *rung = next_part(&rest);
        const int launch = atoi(next_part(&rest));
        next_part(&rest); /* the kernel's name */
        const char *metric = next_part(&rest);
        next_part(&rest); /* the unit */
        const double value = number_of(next_part(&rest));
        for (int i = 0; i < RUNGS; i++) {
            profile *p = &profiles[i];
            if (strcmp(rung, rungs[i]) != 0)
                continue;
            if (!times && launch == p->launch)
                read_metric(p, metric, value);
            if (times && strcmp(metric, "gpu__time_duration.sum") == 0 && value > p->time)
                *p = (profile){.launch = launch, .time = value, .stall = ""};
        }
    }
}

static void print_ladder(const problem *p) {
    printf("At `%s`:\n\n", profiled);
    printf("| rung | time, µs | over the rung before | over naive | of the roofline | float32 "
           "units busy | tensor cores busy | warps wait for |\n");
    printf("|---|---:|---:|---:|---:|---:|---:|---|\n");
    for (int i = 0, before = -1; i < RUNGS; i++) {
        if (p->ns[i] <= 0.0)
            continue;
        printf("| `%s` | %.1f | ", i == RUNGS - 1 ? "fwd_sm80" : rungs[i], p->ns[i] / 1e3);
        if (before >= 0)
            printf("%.2f× | %.0f× | ", p->ns[before] / p->ns[i], p->ns[0] / p->ns[i]);
        else
            printf("| | ");
        if (p->floor_ns > 0.0)
            printf("%.2g %% | ", 100.0 * p->floor_ns / p->ns[i]);
        else
            printf("| ");
        if (profiles[i].time > 0.0)
            printf("%.0f %% | %.0f %% | %s |\n", profiles[i].fma, profiles[i].tensor,
                   profiles[i].stall);
        else
            printf("| | |\n");
        before = i;
    }
}

static void print_times(void) {
    printf("\nThe whole seed suite, µs:\n\n| problem |");
    for (int i = 0; i < RUNGS; i++)
        printf(" `%s` |", i == RUNGS - 1 ? "fwd_sm80" : rungs[i]);
    printf("\n|---|");
    for (int i = 0; i < RUNGS; i++)
        printf("---:|");
    printf("\n");
    for (size_t n = 0; n < problem_count; n++) {
        printf("| `%s` |", problems[n].spec);
        for (int i = 0; i < RUNGS; i++)
            if (problems[n].ns[i] > 0.0)
                printf(" %.1f |", problems[n].ns[i] / 1e3);
            else
                printf(" |");
        printf("\n");
    }
}

/* For the headers of the kernels: the time of each rung. */
static void print_headers(const problem *p) {
    for (int i = 0; i < RUNGS; i++)
        if (p->ns[i] > 0.0)
            printf("%s %.1f us at %s on %s\n", rungs[i], p->ns[i] / 1e3, profiled, gpu);
}

int main(int argc, char **argv) {
    const bool headers = argc == 4 && strcmp(argv[1], "--headers") == 0;
    if (argc != 3 && !headers) {
        fprintf(stderr, "usage: ladder_table [--headers] ladder.json ladder_profile.csv\n");
        return 2;
    }
    char **paths = argv + argc - 2;
    lab_results bench;
    lab_message why;
    if (!lab_results_read(&bench, paths[0], &why)) {
        fprintf(stderr, "ladder_table: %s\n", why.text);
        return 1;
    }
    if (!read_bench(&bench)) {
        fprintf(stderr, "ladder_table: %s: has no result of %s\n", paths[0], profiled);
        return 1;
    }
    FILE *file = fopen(paths[1], "r");
    if (!file) {
        perror(paths[1]);
        return 1;
    }
    read_profile(file, true);
    read_profile(file, false);
    fclose(file);
    if (headers) {
        print_headers(find_problem(profiled));
    } else {
        print_ladder(find_problem(profiled));
        print_times();
    }
    lab_results_free(&bench);
    return 0;
}
