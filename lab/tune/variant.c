/* variant.c: rows with other constants, opened as contexts. */
#include "lab/tune/variant.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/jit.h"
#include "core/select.h"
#include "core/switches.h"
#include "lab/base/interrupt.h"
#include "lab/base/ticker.h"
#include "lab/problem/lab_operation.h"

bool lab_switch_at(size_t i, const char **source, const char **name, const char **text) {
    const att_switch *found = att_switch_at(i);
    if (!found)
        return false;
    *source = found->source;
    *name = found->name;
    *text = found->text;
    return true;
}

static const att_kernel_row *find_row(const char *id) {
    for (size_t i = 0; i < att_registry_count(); i++)
        if (att_registry_row(i)->cuda && strcmp(att_registry_row(i)->id, id) == 0)
            return att_registry_row(i);
    return NULL;
}

/* The built-in row for the problem, found by making a plan. */
static const att_kernel_row *choose_row(att_context *ctx, const lab_spec *spec,
                                        lab_message *why) {
    att_plan *plan = NULL;
    if (spec->operation->plan(&plan, ctx, spec) != ATT_OK) {
        lab_fail(why, "%s", att_last_error()->text);
        return NULL;
    }
    const att_kernel_row *row = find_row(att_plan_kernel(plan));
    if (!row)
        lab_fail(why, "%s is not a built-in GPU kernel", att_plan_kernel(plan));
    att_plan_destroy(plan);
    return row;
}

bool lab_base_find(lab_base *base, att_context *ctx, const lab_spec *spec, lab_message *why) {
    *base = (lab_base){.spec = spec, .gpu = {.size = sizeof base->gpu}};
    if (att_context_query(ctx, &base->gpu) != ATT_OK)
        return lab_fail(why, "%s", att_last_error()->text);
    if (spec->operation->library->size_count == 0)
        return lab_fail(why, "the kernels of %s have no constants to vary",
                        lab_spec_operation(spec));
    if (base->gpu.device != ATT_DEVICE_CUDA)
        return lab_fail(why,
                        "the kernels of the CPU have no constants to vary: their tiles follow "
                        "from the problem when a plan is made");
    const att_kernel_row *chosen = choose_row(ctx, spec, why);
    if (!chosen)
        return false;
    const att_cuda_kernel *row = chosen->cuda;
    base->id = row->id;
    base->source = row->source;
    base->family = chosen->family;
    base->d_qk = row->d_qk;
    base->d_v = row->d_v;
    base->shipped = (lab_variant){
        .m = row->tile_m, .n = row->tile_n, .stages = row->stages, .warps = row->warps};
    for (const att_switch *s; (s = att_switch_of(base->family, base->switch_count));) {
        base->switches[base->switch_count] = s->name;
        base->switch_texts[base->switch_count++] = s->text;
    }
    if (base->switch_count == 0)
        return lab_fail(why, "%s serves this problem, and %s.cu has no switches", row->id,
                        row->source);
    const char *missing;
    if (!att_jit_available(&missing))
        return lab_fail(why, "variants are compiled here, but %s", missing);
    if (!att_jit_source_digest(base->source_sha256, row->source))
        return lab_fail(why, "the library has no source of %s", row->id);
    return true;
}

__attribute__((format(printf, 3, 4))) static void put(char *buf, size_t n, const char *format,
                                                      ...) {
    const size_t used = strlen(buf);
    va_list list;
    va_start(list, format);
    vsnprintf(buf + used, n - used, format, list);
    va_end(list);
}

void lab_variant_row(const lab_base *base, const lab_variant *v, const char *id, char *buf,
                     size_t n) {
    const att_problem *p = &base->spec->problem;
    buf[0] = '\0';
    put(buf, n, "[row]\nid       = %s\nbase     = %s\ntile     = m%dn%ds%dw%d\n", id, base->id,
        v->m, v->n, v->stages, v->warps);
    if (v->off) {
        put(buf, n, "off      =");
        for (size_t i = 0; i < base->switch_count; i++)
            if (v->off & (1u << i))
                put(buf, n, " %s", base->switches[i]);
        put(buf, n, "\n");
    }
    put(buf, n, "gpu      = %s\ncc       = %d\nsms      = %d\n", base->gpu.gpu_name,
        (int)base->gpu.compute_capability, (int)base->gpu.multiprocessors);
    const att_operation *operation = base->family->operation;
    for (size_t i = 0; i < operation->size_count; i++)
        put(buf, n, "%-8s = %" PRId64 "\n", operation->sizes[i].name,
            att_size_of(&operation->sizes[i], p));
    put(buf, n, "%-8s = %s\n", operation->mode_field,
        operation->mode_names[operation->mode(p)]);
    const uint32_t traits = operation->traits(p);
    if (traits) {
        put(buf, n, "with     =");
        for (size_t i = 0; i < operation->trait_count; i++)
            if (traits >> i & 1u)
                put(buf, n, " %s", operation->trait_names[i]);
        put(buf, n, "\n");
    }
}

bool lab_variant_open(att_context **ctx, const lab_base *base, const lab_variant *variant,
                      const char *id, bool may_spill, lab_message *why) {
    char row[LAB_VARIANT_TEXT - 64], text[LAB_VARIANT_TEXT];
    lab_variant_row(base, variant, id, row, sizeof row);
    snprintf(text, sizeof text, "attest-rows 1\n%s%s", row,
             may_spill ? "spills = allowed\n" : "");
    const att_context_options options = {.size = sizeof options,
                                         .device = ATT_DEVICE_CUDA,
                                         .device_index = base->gpu.device_index,
                                         .kernel = id,
                                         .rows = text};
    return att_context_create(ctx, &options) == ATT_OK ||
           lab_fail(why, "%s", att_last_error()->text);
}

/* Threads take contexts from a list. */
typedef struct compile_list {
    att_context *const *contexts;
    size_t count;
    const lab_spec *spec;
    atomic_size_t next;
    lab_ticker *ticker; /* NULL: no bar */
    atomic_size_t finished;
} compile_list;

static void *compile_some(void *argument) {
    compile_list *list = argument;
    for (size_t i;
         (i = atomic_fetch_add(&list->next, 1)) < list->count && !lab_interrupted();) {
        att_plan *plan = NULL;
        if (list->contexts[i] &&
            list->spec->operation->plan(&plan, list->contexts[i], list->spec) == ATT_OK)
            att_plan_destroy(plan);
        const size_t finished = atomic_fetch_add(&list->finished, 1) + 1;
        if (list->ticker)
            lab_ticker_done(list->ticker, finished);
    }
    return NULL;
}

enum { THREADS_MOST = 32 };

size_t lab_variants_at_once(void) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : processors > THREADS_MOST ? THREADS_MOST : (size_t)processors;
}

void lab_variants_compile(att_context *const *contexts, size_t count, const lab_spec *spec,
                          FILE *stream) {
    lab_ticker ticker = {.expected = 0.0};
    compile_list list = {
        .contexts = contexts, .count = count, .spec = spec, .ticker = stream ? &ticker : NULL};
    atomic_init(&list.next, 0);
    atomic_init(&list.finished, 0);
    if (stream)
        lab_ticker_start(&ticker, stream, "compiling variants", count, 0.0);
    pthread_t threads[THREADS_MOST];
    const size_t wanted = count < lab_variants_at_once() ? count : lab_variants_at_once();
    size_t started = 0;
    /* This thread works too. */
    while (started + 1 < wanted &&
           pthread_create(&threads[started], NULL, compile_some, &list) == 0)
        started++;
    compile_some(&list);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (stream)
        lab_ticker_stop(&ticker);
}

void lab_variant_name(const lab_base *base, const lab_variant *v, char *buf, size_t n) {
    buf[0] = '\0';
    put(buf, n, "m%dn%ds%dw%d", v->m, v->n, v->stages, v->warps);
    for (size_t i = 0; i < base->switch_count; i++)
        if (v->off & (1u << i))
            put(buf, n, " -%s", base->switches[i]);
}
