/* cmd_info.c: attest info. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/evidence_report.h"
#include "cli/explanation.h"
#include "cli/session.h"
#include "lab/base/machine.h"
#include "lab/base/table.h"
#include "lab/evidence/place.h"
#include "lab/problem/spec_names.h"

/* Are there kernels for `isa` that serve only where unattested ones are allowed? */
static bool is_unattested(const att_context *ctx, att_isa isa) {
    for (size_t i = 0; i < att_kernel_count(); i++) {
        att_kernel_info kernel = {.size = sizeof kernel};
        if (att_kernel_query(ctx, i, &kernel) == ATT_OK && kernel.device == ATT_DEVICE_CPU &&
            kernel.isa == isa && kernel.unattested)
            return true;
    }
    return false;
}

static void put_instruction_sets(FILE *text, const att_context *ctx,
                                 const att_context_info *info) {
    fputs("instructions  ", text);
    for (int isa = ATT_ISA_PORTABLE; isa <= ATT_ISA_NEON; isa++)
        if (lab_isa_includes(info->isa_machine, (att_isa)isa))
            fprintf(text, "%s%s", isa > ATT_ISA_PORTABLE ? ", " : "",
                    lab_isa_name((att_isa)isa));
    if (info->device == ATT_DEVICE_CPU)
        fprintf(text, "; %s in use%s", lab_isa_name(info->isa),
                is_unattested(ctx, info->isa) ? " where unattested kernels are allowed" : "");
    fputc('\n', text);
}

/* A kernel is judged with the context of its own device. */
typedef struct contexts {
    const att_context *own; /* the session's */
    att_device device;
    att_context *cpu;                  /* if the session's is on a GPU */
    char cpu_place[96], gpu_place[96]; /* the devices of this machine, as evidence names them */
    lab_judgement judgement;
} contexts;

static bool query(const contexts *c, size_t i, att_kernel_info *kernel) {
    *kernel = (att_kernel_info){.size = sizeof *kernel};
    if (att_kernel_query(c->own, i, kernel) != ATT_OK)
        return false;
    return kernel->device == c->device || !c->cpu ||
           att_kernel_query(c->cpu, i, kernel) == ATT_OK;
}

/* "avx2", or "8.0 8.6 8.9 9.0". */
static void describe_needs(const att_kernel_info *kernel, char *buf, size_t n) {
    if (kernel->device == ATT_DEVICE_CPU) {
        snprintf(buf, n, "%s", lab_isa_name(kernel->isa));
        return;
    }
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < 8 && kernel->targets[i] && used < n; i++)
        used += (size_t)snprintf(buf + used, n - used, "%ssm_%d", i ? " " : "",
                                 (int)kernel->targets[i]);
}

/* Every kernel, whether or not it can run here. */
static void put_kernels(FILE *text, const contexts *c) {
    static const lab_table_column columns[] = {
        {"kernel", LAB_TABLE_LEFT},    {"device", LAB_TABLE_LEFT},
        {"for", LAB_TABLE_LEFT},       {"needs", LAB_TABLE_LEFT},
        {"available", LAB_TABLE_LEFT}, {"code", LAB_TABLE_LEFT},
        {"evidence", LAB_TABLE_LEFT},  {"what it is", LAB_TABLE_REMARK},
    };
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < att_context_kernel_count(c->own); i++) {
        att_kernel_info kernel;
        char needs[64], evidence[160];
        if (!query(c, i, &kernel))
            continue;
        describe_needs(&kernel, needs, sizeof needs);
        lab_table_cell(table, "%s", kernel.id);
        lab_table_cell(table, "%s", lab_device_name(kernel.device));
        lab_table_cell(table, "%s", kernel.role);
        lab_table_cell(table, "%s", needs);
        lab_table_cell(table, "%s", kernel.available ? "yes" : "no");
        lab_table_cell(table, "%s", lab_origin_name(kernel.origin));
        cli_evidence_cell(&c->judgement, kernel.id, evidence, sizeof evidence);
        cli_evidence_targets(&kernel, evidence, sizeof evidence);
        lab_table_cell(table, "%s", evidence);
        lab_table_cell(table, "%s", kernel.summary);
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
}

/* Kernels that differ only in type, head dimensions and tile. */
typedef struct family {
    char name[64], needs[64], evidence[160];
    const char *operation, *summary;
    int count;
} family;

typedef struct overview {
    family *list; /* with room for every kernel */
    int count, elsewhere_gpu, elsewhere_cpu, rungs;
} overview;

static void add_kernel(overview *o, const contexts *c, const att_kernel_info *kernel) {
    if (kernel->rung || !kernel->available) {
        o->rungs += kernel->rung;
        o->elsewhere_gpu += !kernel->rung && kernel->device == ATT_DEVICE_CUDA;
        o->elsewhere_cpu += kernel->device == ATT_DEVICE_CPU;
        return;
    }
    family f = {.operation = kernel->operation, .summary = kernel->summary};
    if (kernel->user) /* a family by itself */
        snprintf(f.name, sizeof f.name, "%s", kernel->id);
    else
        cli_kernel_family(f.name, sizeof f.name, kernel->id);
    describe_needs(kernel, f.needs, sizeof f.needs);
    cli_evidence_here(&c->judgement,
                      kernel->device == ATT_DEVICE_CUDA ? c->gpu_place : c->cpu_place,
                      kernel->id, f.evidence, sizeof f.evidence);
    cli_evidence_targets(kernel, f.evidence, sizeof f.evidence);
    int i = 0;
    while (i < o->count && strcmp(o->list[i].name, f.name) != 0)
        i++;
    if (i == o->count)
        o->list[o->count++] = f;
    else if (strcmp(o->list[i].evidence, f.evidence) != 0)
        snprintf(o->list[i].evidence, sizeof f.evidence, "differs: --all");
    o->list[i].count++;
}

/* The kernels that can run here, one line per family, and the number of others. */
static void put_overview(FILE *text, const contexts *c) {
    static const lab_table_column columns[] = {
        {"kernels", LAB_TABLE_LEFT},  {"rows", LAB_TABLE_RIGHT},
        {"computes", LAB_TABLE_LEFT}, {"needs", LAB_TABLE_LEFT},
        {"evidence", LAB_TABLE_LEFT}, {"what it is", LAB_TABLE_REMARK},
    };
    const size_t kernels = att_context_kernel_count(c->own);
    overview o = {.list = calloc(kernels, sizeof *o.list)};
    if (!o.list)
        return;
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < kernels; i++) {
        att_kernel_info kernel;
        if (query(c, i, &kernel))
            add_kernel(&o, c, &kernel);
    }
    for (int i = 0; i < o.count; i++) {
        const family *f = &o.list[i];
        lab_table_cell(table, "%s", f->name);
        lab_table_cell(table, "%d", f->count);
        lab_table_cell(table, "%s", f->operation);
        lab_table_cell(table, "%s", f->needs);
        lab_table_cell(table, "%s", f->evidence);
        lab_table_cell(table, "%s", f->summary);
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
    fprintf(
        text,
        "\nCannot run here: %d GPU kernels, %d for other instruction sets. Off unless allowed: "
        "%d slow\nkernels of the ladder (docs/ladder.md). --all lists every kernel.\n",
        o.elsewhere_gpu, o.elsewhere_cpu, o.rungs);
    free(o.list);
}

static json_t *kernel_object(const att_kernel_info *k) {
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:s}", "id", k->id, "device",
                  lab_device_name(k->device), "role", k->role, "isa", lab_isa_name(k->isa),
                  "available", k->available, "unattested", k->unattested, "origin",
                  lab_origin_name(k->origin), "summary", k->summary);
    if (k->device != ATT_DEVICE_CUDA)
        return object;
    json_t *targets = json_array();
    for (int i = 0; i < 8 && k->targets[i]; i++)
        json_array_append_new(targets, json_integer(k->targets[i]));
    json_object_set_new(object, "targets", targets);
    json_object_set_new(
        object, "dtype",
        k->dtype ? json_string(lab_name_of(lab_dtype_names, (int)k->dtype)) : json_null());
    json_object_update_new(
        object, json_pack("{s:b, s:i, s:i, s:i, s:i, s:i, s:i}", "rung", k->rung, "d_qk",
                          (int)k->d_qk, "d_v", (int)k->d_v, "tile_m", (int)k->tile_m, "tile_n",
                          (int)k->tile_n, "stages", (int)k->stages, "warps", (int)k->warps));
    return object;
}

static json_t *kernels_array(const contexts *c) {
    json_t *array = json_array();
    for (size_t i = 0; i < att_context_kernel_count(c->own); i++) {
        att_kernel_info kernel;
        if (!query(c, i, &kernel))
            continue;
        json_t *object = kernel_object(&kernel);
        json_object_set_new(object, "evidence", cli_evidence_array(&c->judgement, kernel.id));
        json_array_append_new(array, object);
    }
    return array;
}

/* Digests of the sources of this program, with which evidence is compared. */
static json_t *sources_object(void) {
    json_t *object = json_object();
    for (const lab_built *built = lab_built_digests; built->name; built++)
        json_object_set_new(object, built->name, json_string(built->sha256));
    return object;
}

/* List every GPU of the machine as text, and return them for the document. */
static json_t *put_gpus(FILE *text) {
    lab_message why;
    const int count = lab_gpu_count(&why);
    json_t *array = json_array();
    if (count == 0)
        fprintf(text, "GPUs          none: %s\n", why.text);
    for (int i = 0; i < count; i++) {
        const att_context_options options = {
            .size = sizeof options, .device = ATT_DEVICE_CUDA, .device_index = i};
        att_context *ctx = NULL;
        att_context_info gpu = {.size = sizeof gpu};
        if (att_context_create(&ctx, &options) != ATT_OK ||
            att_context_query(ctx, &gpu) != ATT_OK) {
            fprintf(text, "GPU %-9d cannot be used: %s\n", i, att_last_error()->text);
            json_array_append_new(
                array, json_pack("{s:i, s:s}", "index", i, "error", att_last_error()->text));
        } else {
            fprintf(text,
                    "GPU %-9d %s: compute capability %d.%d, %d SMs, %.1f GiB, driver for CUDA "
                    "%d.%d, %s\n",
                    i, gpu.gpu_name, (int)gpu.compute_capability / 10,
                    (int)gpu.compute_capability % 10, (int)gpu.multiprocessors,
                    (double)gpu.memory_bytes / 0x1p30, (int)gpu.driver_version / 1000,
                    (int)gpu.driver_version % 1000 / 10, gpu.gpu_uuid);
            json_array_append_new(array, lab_json_gpu(&gpu));
        }
        att_context_destroy(ctx);
    }
    return array;
}

static void put_device(FILE *text, const att_context_info *info) {
    if (info->device == ATT_DEVICE_CUDA)
        fprintf(text, "device        cuda:%d\n", (int)info->device_index);
    else
        fprintf(text, "device        cpu, %d thread%s\n", (int)info->threads,
                info->threads == 1 ? "" : "s");
}

static cli_exit put_info(cli_session *session, const att_context_info *info, contexts *c) {
    FILE *text = session->text;
    fprintf(text, "attest        %s, built with %s\n", att_version(), lab_compiler());
    fprintf(text, "processor     %s\n", info->name);
    put_instruction_sets(text, session->ctx[0], info);
    json_t *gpus = put_gpus(text);
    put_device(text, info);
    fputc('\n', text);
    if (session->options->all)
        put_kernels(text, c);
    else
        put_overview(text, c);
    fputc('\n', text);
    if (c->judgement.count == 0)
        fputs("no evidence found; 'attest certify' creates it\n", text);
    const char *const places[] = {c->cpu_place, c->gpu_place};
    cli_put_standings_here(text, &c->judgement, places, *c->gpu_place ? 2 : 1);
    json_t *document = lab_json_document("attest-info-1", session->ctx[0]);
    json_object_set_new(document, "gpus", gpus);
    json_object_set_new(document, "kernels", kernels_array(c));
    json_object_set_new(document, "sources", sources_object());
    return cli_session_finish(session, document, CLI_HOLDS);
}

cli_exit cli_info(const cli_options *o) {
    cli_session session;
    lab_evidence evidence = {.count = 0};
    contexts c = {.own = NULL};
    cli_session_start(&session, o);
    cli_exit result = cli_session_open(&session);
    att_context_info info = {.size = sizeof info};
    if (result == CLI_HOLDS && att_context_query(session.ctx[0], &info) != ATT_OK)
        result = cli_library_failed(o);
    if (result == CLI_HOLDS)
        result = cli_evidence_read(o, &evidence, &c.judgement);
    if (result == CLI_HOLDS) {
        c.own = session.ctx[0];
        c.device = info.device;
        lab_place_cpu(info.name, info.isa_machine, c.cpu_place, sizeof c.cpu_place);
        if (info.device == ATT_DEVICE_CUDA) {
            lab_place_name(info.gpu_name, c.gpu_place, sizeof c.gpu_place);
            const att_context_options options = {
                .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 1};
            att_context_create(&c.cpu, &options);
        }
        result = put_info(&session, &info, &c);
        att_context_destroy(c.cpu);
    }
    lab_judgement_free(&c.judgement);
    lab_evidence_free(&evidence);
    cli_session_close(&session);
    return result;
}
