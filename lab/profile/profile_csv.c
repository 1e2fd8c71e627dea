/* profile_csv.c: parses the CSV output of ncu. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/profile/profile.h"

/* A record: fields split in place. */
enum { FIELDS_MOST = 1024 };
typedef struct record {
    char *fields[FIELDS_MOST];
    size_t count;
} record;

/* The meaning of the columns. */
typedef struct header {
    size_t launch, kernel;
    size_t metric, unit, value; /* one line per metric; otherwise `wide` */
    bool wide;
    int columns[FIELDS_MOST];    /* wide: the metric of each column, -1: none */
    double factors[FIELDS_MOST]; /* wide: factor to our unit */
} header;

void lab_profile_free(lab_profile *profile) {
    free(profile->list);
    *profile = (lab_profile){.count = 0};
}

/* Split the line at *rest; *rest moves past it. False if a quote is not closed, or there are
 * too many fields. */
static bool next_record(char **rest, record *r) {
    char *at = *rest;
    r->count = 0;
    for (bool more = true; more;) {
        if (r->count == FIELDS_MOST)
            return false;
        char *out = at;
        r->fields[r->count++] = out;
        bool quoted = false;
        for (; *at && (quoted || (*at != ',' && *at != '\n')); at++) {
            if (*at != '"')
                *out++ = *at;
            else if (quoted && at[1] == '"')
                *out++ = *at++;
            else
                quoted = !quoted;
        }
        if (quoted)
            return false;
        more = *at == ',';
        const char end = *at;
        if (out > r->fields[r->count - 1] && out[-1] == '\r')
            out--;
        if (end)
            at++;
        *out = '\0';
    }
    *rest = at;
    return true;
}

static size_t find_field(const record *r, const char *name) {
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->fields[i], name) == 0)
            return i;
    return FIELDS_MOST;
}

static int metric_of(const char *name) {
    for (int i = 0; i < LAB_METRICS; i++)
        if (strcmp(lab_metric_rows[i].name, name) == 0)
            return i;
    return -1;
}

/* A number as ncu prints it, with commas between thousands; NaN for anything else, such as
 * "n/a". */
static double number_of(const char *text) {
    char digits[64];
    size_t used = 0;
    for (; *text && used + 1 < sizeof digits; text++)
        if (*text != ',')
            digits[used++] = *text;
    digits[used] = '\0';
    char *end;
    const double number = strtod(digits, &end);
    return used > 0 && !*end ? number : (double)NAN;
}

/* The factor from this unit to ours. */
static double factor_of(const char *unit) {
    static const struct {
        const char *unit;
        double factor;
    } factors[] = {
        {"us", 1e3},     {"usecond", 1e3}, {"ms", 1e6},          {"msecond", 1e6}, {"s", 1e9},
        {"second", 1e9}, {"Kbyte", 1e3},   {"Mbyte", 1e6},       {"Gbyte", 1e9},   {"KB", 1e3},
        {"MB", 1e6},     {"GB", 1e9},      {"Kbyte/block", 1e3},
    };
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        if (strcmp(unit, factors[i].unit) == 0)
            return factors[i].factor;
    return 1.0;
}

static bool read_header(header *h, const record *r) {
    h->launch = find_field(r, "ID");
    h->kernel = find_field(r, "Kernel Name");
    h->metric = find_field(r, "Metric Name");
    h->unit = find_field(r, "Metric Unit");
    h->value = find_field(r, "Metric Value");
    h->wide = h->metric == FIELDS_MOST;
    size_t known = 0;
    for (size_t i = 0; i < r->count; i++) {
        h->columns[i] = metric_of(r->fields[i]);
        h->factors[i] = 1.0;
        known += h->columns[i] >= 0;
    }
    return h->launch < FIELDS_MOST && h->kernel < FIELDS_MOST &&
           (h->wide ? known > 0 : h->unit < FIELDS_MOST && h->value < FIELDS_MOST);
}

static lab_profiled *launch_of(lab_profile *profile, int launch, const char *kernel) {
    for (size_t i = 0; i < profile->count; i++)
        if (profile->list[i].launch == launch)
            return &profile->list[i];
    lab_profiled *grown = realloc(profile->list, (profile->count + 1) * sizeof *profile->list);
    if (!grown)
        return NULL;
    profile->list = grown;
    lab_profiled *added = &grown[profile->count++];
    added->launch = launch;
    snprintf(added->kernel, sizeof added->kernel, "%s", kernel);
    for (int i = 0; i < LAB_METRICS; i++)
        added->values[i] = (double)NAN;
    return added;
}

static bool add_wide(lab_profiled *to, const header *h, const record *r) {
    for (size_t i = 0; i < r->count; i++)
        if (h->columns[i] >= 0)
            to->values[h->columns[i]] = h->factors[i] * number_of(r->fields[i]);
    return true;
}

static bool add_one(lab_profiled *to, const header *h, const record *r) {
    const int metric = metric_of(r->fields[h->metric]);
    if (metric >= 0)
        to->values[metric] = factor_of(r->fields[h->unit]) * number_of(r->fields[h->value]);
    return true;
}

/* A line after the header: units, or values. */
static bool add_record(lab_profile *profile, header *h, const record *r, size_t columns,
                       lab_message *why) {
    if (r->count != columns)
        return lab_fail(why, "ncu printed a line of %zu fields under a header of %zu", r->count,
                        columns);
    char *end;
    const long launch = strtol(r->fields[h->launch], &end, 10);
    if (end == r->fields[h->launch] && h->wide && profile->count == 0) {
        for (size_t i = 0; i < r->count; i++)
            h->factors[i] = factor_of(r->fields[i]);
        return true;
    }
    if (end == r->fields[h->launch] || *end || launch < 0 || launch > 1000000)
        return lab_fail(why, "ncu printed a launch '%.40s', which is not a number",
                        r->fields[h->launch]);
    lab_profiled *to = launch_of(profile, (int)launch, r->fields[h->kernel]);
    if (!to)
        return lab_fail(why, "no memory for the profile");
    return h->wide ? add_wide(to, h, r) : add_one(to, h, r);
}

/* Other output of the program and of ncu comes before the header of the table. */
static bool parse_text(lab_profile *profile, char *text, header *h, record *r,
                       lab_message *why) {
    size_t columns = 0;
    for (char *rest = text; *rest;) {
        if (!columns && strncmp(rest, "\"ID\"", 4) != 0) {
            rest += strcspn(rest, "\n");
            rest += *rest == '\n';
            continue;
        }
        if (!next_record(&rest, r))
            return lab_fail(why, "ncu's table ends within a line");
        if (!columns) {
            if (!read_header(h, r))
                return lab_fail(why, "ncu's table has none of the known columns");
            columns = r->count;
        } else if (r->count > 1 && !add_record(profile, h, r, columns, why)) {
            return false;
        }
    }
    if (!columns)
        return lab_fail(why, "ncu printed no table");
    return profile->count > 0 || lab_fail(why, "ncu's table has no launches");
}

bool lab_profile_parse(lab_profile *profile, const char *text, lab_message *why) {
    *profile = (lab_profile){.count = 0};
    char *copy = strdup(text);
    header *h = malloc(sizeof *h);
    record *r = malloc(sizeof *r);
    const bool ok = copy && h && r ? parse_text(profile, copy, h, r, why)
                                   : lab_fail(why, "no memory for the profile");
    free(copy);
    free(h);
    free(r);
    if (!ok)
        lab_profile_free(profile);
    return ok;
}

const lab_profiled *lab_profile_kernel(const lab_profile *profile, size_t i) {
    size_t seen = 0;
    for (size_t at = 0; at < profile->count; at++) {
        bool last = true;
        for (size_t later = at + 1; last && later < profile->count; later++)
            last = strcmp(profile->list[later].kernel, profile->list[at].kernel) != 0;
        if (last && seen++ == i)
            return &profile->list[at];
    }
    return NULL;
}
