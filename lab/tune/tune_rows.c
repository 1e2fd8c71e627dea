/* tune_rows.c: a tuned row as text with its provenance, and the file that it is kept in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sha256.h"
#include "lab/base/atomic_file.h"
#include "lab/base/clock.h"
#include "lab/tune/tune.h"

static const char first_line[] = "attest-rows 1\n";
enum { FILE_MOST = 1 << 20 };

void lab_tune_id(const lab_base *base, char id[LAB_VARIANT_ID]) {
    char line[LAB_SPEC_MAX], text[LAB_SPEC_MAX + 256], digest[ATT_SHA256_HEX];
    lab_spec_print(base->spec, line, sizeof line);
    const int length = snprintf(text, sizeof text, "%s\n%d\n%s\n%s", base->gpu.gpu_name,
                                (int)base->gpu.multiprocessors, base->id, line);
    att_sha256_of(text, (size_t)length, digest);
    /* The base's name up to its tile. */
    const char *tile = strstr(base->id, "_m");
    snprintf(id, LAB_VARIANT_ID, "user_%.*s_%.8s",
             (int)(tile ? tile - base->id : (long)strlen(base->id)), base->id, digest);
}

void lab_tune_row(const lab_tuning *t, char *buf, size_t n) {
    char row[LAB_VARIANT_TEXT - 1024], line[LAB_SPEC_MAX], date[32];
    lab_variant_row(&t->base, &t->winner, t->winner_id, row, sizeof row);
    lab_spec_print(t->base.spec, line, sizeof line);
    lab_clock_utc(date, sizeof date);
    const int driver = (int)t->base.gpu.driver_version;
    snprintf(buf, n,
             "%ssource   = %s\nproblem  = %.300s\ndate     = %s\nverdict  = %s: %+.2f %% "
             "[%+.2f, %+.2f], %.3f us against %.3f us of %s\ndriver   = CUDA %d.%d\nuuid     = "
             "%s\nattest   = %s\ncode     = %s\n",
             row, t->base.source_sha256, line, date, lab_verdict_name(t->verdict.kind),
             100.0 * t->verdict.effect, 100.0 * t->verdict.low, 100.0 * t->verdict.high,
             t->final[1].ns.median / 1e3, t->final[0].ns.median / 1e3, t->base.id,
             driver / 1000, driver % 1000 / 10, t->base.gpu.gpu_uuid, att_version(),
             t->final[1].launch.code_sha256);
}

/* The whole file; "" if it does not exist; NULL with the reason on an error. */
static char *read_file(const char *path, lab_message *why) {
    FILE *file = fopen(path, "r");
    if (!file && errno == ENOENT)
        return calloc(1, 1);
    char *text = file ? calloc(1, FILE_MOST + 2) : NULL;
    const size_t size = text ? fread(text, 1, FILE_MOST + 1, file) : 0;
    const bool failed = !file || !text || ferror(file) || size > FILE_MOST;
    const int code = errno;
    if (file)
        fclose(file);
    if (!failed)
        return text;
    free(text);
    lab_fail(why, "%s: %s", path,
             size > FILE_MOST ? "longer than a rows file may be" : strerror(code));
    return NULL;
}

/* The end of the row that begins at `row`: the next one, or the end of the text. */
static char *row_end(char *row) {
    char *next = strstr(row + 1, "\n[row]");
    return next ? next + 1 : row + strlen(row);
}

/* Whether the row between the two has this id. */
static bool has_id(const char *row, const char *end, const char *id) {
    const char *at = strstr(row, "\nid");
    if (!at || at >= end)
        return false;
    at += 3;
    at += strspn(at, " \t");
    at += *at == '=';
    at += strspn(at, " \t");
    const size_t length = strlen(id);
    return strncmp(at, id, length) == 0 && strchr(" \t\r\n", at[length]);
}

/* Remove the row of this id from the text. */
static void remove_row(char *text, const char *id) {
    for (char *row = strstr(text, "[row]"); row && *row;) {
        char *end = row_end(row);
        if (has_id(row, end, id)) {
            memmove(row, end, strlen(end) + 1);
            continue;
        }
        row = *end ? end : NULL;
    }
}

static bool write_file(const char *path, const char *text, const char *row, lab_message *why) {
    lab_atomic_file file = {.fd = -1};
    if (!lab_atomic_create(&file, path, why))
        return false;
    const size_t length = strlen(text);
    const char *gap = length && text[length - 1] != '\n' ? "\n" : "";
    bool ok = dprintf(file.fd, "%s%s%s\n%s", *text ? "" : first_line, text, gap, row) > 0;
    if (!ok)
        lab_fail(why, "%s: %s", path, strerror(errno));
    ok = ok && lab_atomic_commit(&file, why);
    lab_atomic_discard(&file);
    return ok;
}

bool lab_tune_keep(const lab_tuning *t, const char *path, lab_message *why) {
    char row[LAB_VARIANT_TEXT];
    lab_tune_row(t, row, sizeof row);
    char *text = read_file(path, why);
    if (!text)
        return false;
    bool ok = !*text || strncmp(text, first_line, strlen(first_line)) == 0 ||
              lab_fail(why, "%s: is not a rows file: its first line is not '%.13s'", path,
                       first_line);
    if (ok) {
        remove_row(text, t->winner_id);
        size_t length = strlen(text);
        while (length > 1 && text[length - 1] == '\n' && text[length - 2] == '\n')
            text[--length] = '\0';
        ok = write_file(path, text, row, why);
    }
    free(text);
    return ok;
}
