/* report_files.c: finds, reads, classifies and sorts the files of a report. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sha256.h"
#include "lab/base/json_load.h"
#include "lab/report/report_model.h"

/* The most levels of subfolders: a folder of results has only a few. */
enum { DEPTH_MOST = 16 };

static const char statement_type[] = "https://in-toto.io/Statement/v1";

static const struct {
    const char *schema;
    lab_report_kind kind;
} schemas[] = {
    {"attest-bench-1", LAB_REPORT_BENCH},
    {"attest-bench-2", LAB_REPORT_BENCH},
    {"attest-gpu-vs-torch-1", LAB_REPORT_GPU_TORCH},
    {"attest-cpu-vs-torch-1", LAB_REPORT_CPU_TORCH},
    {"attest-ablation-1", LAB_REPORT_ABLATION},
    {"attest-gpu-peaks-1", LAB_REPORT_PEAKS},
    {"attest-audit-1", LAB_REPORT_AUDIT},
    {"attest-profile-1", LAB_REPORT_PROFILE},
    {"attest-compare-1", LAB_REPORT_COMPARE},
    {"attest-rival-medians-1", LAB_REPORT_MEDIANS},
};

/* ------------------------------------------------------------------------ one file */

static bool system_failed(const char *path, lab_message *why) {
    return lab_fail(why, "%s: %s", path, strerror(errno));
}

/* The bytes of a regular file; *out is allocated. A pipe must not block it. */
static bool read_bytes(const char *path, char **out, size_t *length, lab_message *why) {
    struct stat info;
    *out = NULL;
    *length = 0;
    if (stat(path, &info) != 0)
        return system_failed(path, why);
    if (!S_ISREG(info.st_mode))
        return lab_fail(why, "%s: is neither a file nor a folder", path);
    return lab_json_bytes(path, out, length, why);
}

/* The kind of the document. In a folder (`among_others`) other documents of attest are
 * skipped. */
static bool tell_kind(lab_report_file *file, bool among_others, lab_message *why) {
    const lab_node root = lab_node_root(file->name, file->document);
    const char *type = NULL;
    file->schema = NULL;
    if (!lab_node_is_object(&root, why) ||
        !lab_node_text_maybe(&root, "schema", &file->schema, why) ||
        !lab_node_text_maybe(&root, "_type", &type, why))
        return false;
    if (!file->schema && type && strcmp(type, statement_type) == 0) {
        file->schema = type;
        file->kind = LAB_REPORT_STATEMENT;
        return true;
    }
    if (!file->schema)
        return lab_fail(why, "%s: schema: is missing: this is not a file written by attest",
                        file->name);
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        if (strcmp(schemas[i].schema, file->schema) == 0) {
            file->kind = schemas[i].kind;
            return true;
        }
    file->kind = LAB_REPORT_OTHER;
    return (among_others && strncmp(file->schema, "attest-", 7) == 0) ||
           lab_fail(why, "%s: schema: a report cannot show '%.60s'", file->name, file->schema);
}

/* Bytes per second of a copy in the same run, wherever the harness recorded them. */
static bool read_copy_rate(lab_report_file *file, const lab_node *document, lab_message *why) {
    const lab_node device = lab_node_member(document, "device");
    return (!json_is_object(device.value) ||
            lab_node_number_maybe(&device, "copy_bytes", &file->copy_bytes, why)) &&
           lab_node_number_maybe(document, "copy_bytes", &file->copy_bytes, why);
}

static bool read_head(lab_report_file *file, lab_message *why) {
    const lab_node document = lab_node_root(file->name, file->document);
    const lab_node predicate = lab_node_member(&document, "predicate");
    const lab_node root = file->kind == LAB_REPORT_STATEMENT ? predicate : document;
    file->version = file->date = file->device = file->kernel = "";
    return lab_node_text_maybe(&root, "attest", &file->version, why) &&
           lab_node_text_maybe(&root, "made", &file->date, why) &&
           lab_node_number_maybe(&root, "device_seconds", &file->device_seconds, why) &&
           read_copy_rate(file, &document, why);
}

static bool add_file(lab_report *report, const char *path, const char *name, bool among_others,
                     lab_message *why) {
    lab_report_file *files =
        lab_report_grow(report->files, report->file_count, sizeof *files, why);
    char *bytes = NULL;
    size_t length = 0;
    if (!files)
        return false;
    report->files = files;
    lab_report_file *file = &files[report->file_count];
    *file = (lab_report_file){.name = lab_report_text(report, "%s", name)};
    if (!read_bytes(path, &bytes, &length, why)) {
        free(bytes);
        return false;
    }
    att_sha256_of(bytes, length, file->digest);
    file->document = lab_json_parse(bytes, length, path, why);
    free(bytes);
    if (!file->document)
        return false;
    report->file_count++;
    return tell_kind(file, among_others, why) && read_head(file, why);
}

/* -------------------------------------------------------------------------- folders */

static int is_candidate(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int by_name(const struct dirent **left, const struct dirent **right) {
    return strcmp((*left)->d_name, (*right)->d_name);
}

static bool ends_in(const char *text, const char *ending) {
    const size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

static bool add_path(lab_report *report, const char *path, const char *name, int depth,
                     lab_message *why);

static bool add_folder(lab_report *report, const char *path, const char *name, int depth,
                       lab_message *why) {
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, is_candidate, by_name);
    bool ok = count >= 0 || system_failed(path, why);
    for (int i = 0; i < count; i++) {
        const char *inner = entries[i]->d_name;
        const char *where = lab_report_text(report, "%s/%s", path, inner);
        struct stat info;
        if (ok && stat(where, &info) == 0 && (S_ISDIR(info.st_mode) || ends_in(inner, ".json")))
            ok = add_path(report, where,
                          lab_report_text(report, "%s%s%s", name, *name ? "/" : "", inner),
                          depth + 1, why);
        free(entries[i]);
    }
    free(entries);
    return ok;
}

static bool add_path(lab_report *report, const char *path, const char *name, int depth,
                     lab_message *why) {
    struct stat info;
    if (stat(path, &info) != 0)
        return system_failed(path, why);
    if (!S_ISDIR(info.st_mode))
        return add_file(report, path, name, depth > 0, why);
    if (depth > DEPTH_MOST)
        return lab_fail(why, "%s: folders are more than %d deep", path, DEPTH_MOST);
    return add_folder(report, path, name, depth, why);
}

/* The last part of a path, which is the name of a file in the report: its readers do not care
 * where the folder is on this machine. */
static const char *last_part(lab_report *report, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t start = length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    const char *part = lab_report_text(report, "%.*s", (int)(length - start), path + start);
    return strcmp(part, ".") == 0 || strcmp(part, "..") == 0 ? "" : part;
}

/* --------------------------------------------------------------------------- order */

static int by_version(const char *left, const char *right) {
    for (;;) {
        char *left_end, *right_end;
        const unsigned long a = strtoul(left, &left_end, 10),
                            b = strtoul(right, &right_end, 10);
        if (a != b)
            return a < b ? -1 : 1;
        if (*left_end != '.' || *right_end != '.')
            return strcmp(left, right);
        left = left_end + 1;
        right = right_end + 1;
    }
}

static int oldest_first(const void *left, const void *right) {
    const lab_report_file *a = left, *b = right;
    int order = strcmp(a->date, b->date);
    if (order == 0)
        order = by_version(a->version, b->version);
    return order != 0 ? order : strcmp(a->name, b->name);
}

static bool read_file(lab_report *report, size_t file, lab_message *why) {
    switch (report->files[file].kind) {
    case LAB_REPORT_BENCH:
        return lab_report_read_bench(report, file, why);
    case LAB_REPORT_GPU_TORCH:
        return lab_report_read_gpu_torch(report, file, why);
    case LAB_REPORT_CPU_TORCH:
        return lab_report_read_cpu_torch(report, file, why);
    case LAB_REPORT_ABLATION:
        return lab_report_read_ablation(report, file, why);
    case LAB_REPORT_PEAKS:
        return lab_report_read_peaks(report, file, why);
    case LAB_REPORT_STATEMENT:
        return lab_report_read_statement(report, file, why);
    case LAB_REPORT_AUDIT:
        return lab_report_read_audit(report, file, why);
    case LAB_REPORT_PROFILE:
        return lab_report_read_profile(report, file, why);
    case LAB_REPORT_COMPARE:
        return lab_report_read_compare(report, file, why);
    case LAB_REPORT_MEDIANS:
        return lab_report_read_medians(report, file, why);
    case LAB_REPORT_OTHER:
        break;
    }
    return true;
}

bool lab_report_make(lab_report *report, const char *const *paths, size_t count,
                     lab_message *why) {
    *report = (lab_report){0};
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = add_path(report, paths[i], last_part(report, paths[i]), 0, why);
    if (ok && report->file_count == 0)
        ok = lab_fail(why, "%s: no .json files found", count > 0 ? paths[0] : "no path given");
    if (ok)
        qsort(report->files, report->file_count, sizeof *report->files, oldest_first);
    for (size_t i = 0; ok && i < report->file_count; i++)
        ok = read_file(report, i, why);
    ok = ok && lab_report_compare(report, why);
    if (!ok)
        lab_report_free(report);
    return ok;
}
