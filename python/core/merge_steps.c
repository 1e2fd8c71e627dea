/* merge_steps.c: a merge as launches. A launch takes up to ATT_MERGE_PARTS_MAX parts with the
 * same layout. If that is not enough, consecutive parts are merged into float32, these again,
 * and so on. */
#include "python/core/array_check.h"
#include "python/core/failure.h"
#include "python/core/launch_record.h"
#include "python/core/merge_call.h"
#include "python/core/plan_calls.h"
#include "python/core/workspace.h"

#include <string.h>

typedef struct merge_launch {
    cached_plan *plan;
    att_merge_args args;
} merge_launch;

/* The parts of every level, one level after the other: the caller's, the results of merging
 * them, and so on. */
typedef struct merge_steps {
    merge_call *call;
    Py_ssize_t count, done; /* launches; and those that have a plan */
    merge_launch *launches;
    const void **o; /* of every part of every level */
    const float **lse;
    size_t slot_o, slot_lse; /* bytes of an intermediate part */
    workspace space;         /* memory of the intermediate parts */
    size_t plan_bytes;       /* of workspace, the largest of any launch */
} merge_steps;

static bool alike(const merge_call *m, Py_ssize_t a, Py_ssize_t b) {
    const merge_strides first =
        merge_strides_of(m, &m->parts_o.parts[a], &m->parts_lse.parts[a]);
    const merge_strides other =
        merge_strides_of(m, &m->parts_o.parts[b], &m->parts_lse.parts[b]);
    return !memcmp(&first, &other, sizeof first);
}

/* One past the last part of the launch that begins with `first`, in a level that ends at
 * `end`. */
static Py_ssize_t launch_end(const merge_call *m, bool callers, Py_ssize_t first,
                             Py_ssize_t end) {
    Py_ssize_t next = first + 1;
    while (next < end && next - first < ATT_MERGE_PARTS_MAX &&
           (!callers || alike(m, first, next)))
        next++;
    return next;
}

static Py_ssize_t count_launches(const merge_call *m) {
    Py_ssize_t level = 0, all;
    for (Py_ssize_t at = 0; at < m->parts_o.count; level++)
        at = launch_end(m, true, at, m->parts_o.count);
    for (all = level; level > 1; all += level)
        level = (level + ATT_MERGE_PARTS_MAX - 1) / ATT_MERGE_PARTS_MAX;
    return all;
}

static size_t whole_lines(size_t bytes) {
    return (bytes + ATT_WORKSPACE_ALIGN - 1) / ATT_WORKSPACE_ALIGN * ATT_WORKSPACE_ALIGN;
}

static int reserve(merge_steps *s) {
    const merge_call *m = s->call;
    const size_t parts = (size_t)(m->parts_o.count + s->count - 1);
    s->launches = PyMem_Calloc((size_t)s->count, sizeof *s->launches);
    s->o = PyMem_Calloc(parts, sizeof *s->o);
    s->lse = PyMem_Calloc(parts, sizeof *s->lse);
    if (!s->launches || !s->o || !s->lse) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < m->parts_o.count; i++) {
        s->o[i] = m->parts_o.parts[i].data;
        s->lse[i] = m->parts_lse.parts[i].data;
    }
    return 0;
}

static int64_t common_alignment(const void *o, const void *const *parts, int64_t count) {
    uintptr_t bits = (uintptr_t)o;
    for (int64_t i = 0; i < count; i++)
        bits |= (uintptr_t)parts[i];
    return array_alignment(bits);
}

/* The problem of a launch: parts from `first` on, the caller's or intermediate float32 ones;
 * writes the caller's outputs or an intermediate part. */
static att_merge_problem problem_of(const merge_steps *s, Py_ssize_t first, Py_ssize_t count,
                                    bool last) {
    const merge_call *m = s->call;
    const bool callers = first < m->parts_o.count;
    const att_merge_problem *shape = &m->shape;
    att_merge_problem p;
    memset(&p, 0, sizeof p); /* padding too: the bytes are the key of the plan */
    att_merge_problem_init(&p, count, shape->batch, shape->heads, shape->seq, shape->d,
                           callers ? shape->dtype : ATT_F32);
    p.dtype_o = last ? shape->dtype_o : ATT_F32;
    if (callers) {
        const merge_strides in =
            merge_strides_of(m, &m->parts_o.parts[first], &m->parts_lse.parts[first]);
        p.part_o = in.o;
        p.part_lse = in.lse;
    }
    if (!last)
        return p;
    const merge_strides out = merge_strides_of(m, &m->o, &m->lse);
    p.o = out.o;
    if (m->return_lse)
        p.lse = out.lse;
    else
        p.features = 0;
    return p;
}

/* Add the launch of the parts from `first` on; the last one writes the caller's outputs, the
 * others part `slot`. */
static int add_launch(merge_steps *s, Py_ssize_t first, Py_ssize_t count, Py_ssize_t slot) {
    const merge_call *m = s->call;
    const bool last = s->done == s->count - 1;
    const dl_device device = m->parts_o.parts[0].device;
    const bool gpu = tensor_on_gpu(device);
    merge_launch *launch = &s->launches[s->done];
    att_merge_args *a = &launch->args;
    att_merge_problem p = problem_of(s, first, count, last);
    if (!last) { /* this call's own memory; NULL if the parts are empty, and then no pointer
                  * arithmetic */
        const uintptr_t at = (uintptr_t)s->space.data +
                             (size_t)(slot - m->parts_o.count) * (s->slot_o + s->slot_lse);
        s->o[slot] = (void *)at;
        s->lse[slot] = (float *)(at + s->slot_o);
    }
    *a = (att_merge_args){.size = sizeof *a,
                          .part_o = s->o + first,
                          .part_lse = s->lse + first,
                          .o = last ? m->o.data : (void *)(uintptr_t)s->o[slot],
                          .lse = last ? m->lse.data : (void *)(uintptr_t)s->lse[slot],
                          .launch = launch_record()};
    if (gpu)
        p.alignment = common_alignment(a->o, a->part_o, count);
    const plan_key key = {&plan_of_merge, gpu ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU,
                          gpu ? device.id : 0, &p};
    launch->plan = plan_for(&key);
    if (!launch->plan)
        return -1;
    if (launch->plan->workspace > s->plan_bytes)
        s->plan_bytes = launch->plan->workspace;
    s->done++;
    return 0;
}

static int add_launches(merge_steps *s) {
    const merge_call *m = s->call;
    Py_ssize_t begin = 0, end = m->parts_o.count;
    while (s->done < s->count) {
        const Py_ssize_t level_end = end;
        for (Py_ssize_t at = begin, slot = level_end; at < level_end; slot++) {
            const Py_ssize_t next = launch_end(m, begin == 0, at, level_end);
            if (add_launch(s, at, next - at, slot))
                return -1;
            at = next;
            end = slot + 1;
        }
        begin = level_end;
    }
    return 0;
}

/* Allocate memory for the intermediate parts. */
static int take_slots(merge_steps *s, const workspace_place *place) {
    const att_merge_problem *p = &s->call->shape;
    const size_t rows = (size_t)(p->batch * p->heads * p->seq), slots = (size_t)s->count - 1;
    s->slot_o = whole_lines(rows * (size_t)p->d * sizeof(float));
    s->slot_lse = whole_lines(rows * sizeof(float));
    if (slots && s->slot_o + s->slot_lse > (size_t)PTRDIFF_MAX / slots) {
        PyErr_NoMemory();
        return -1;
    }
    return workspace_take(&s->space, place, slots * (s->slot_o + s->slot_lse));
}

/* Without the GIL: other Python threads continue. */
static int run(merge_steps *s, const workspace_place *place, void *stream) {
    workspace scratch;
    att_status status = ATT_OK;
    if (workspace_take(&scratch, place, s->plan_bytes))
        return -1;
    Py_BEGIN_ALLOW_THREADS for (Py_ssize_t i = 0; i < s->count && status == ATT_OK;
                                i++) status =
        att_merge_run(s->launches[i].plan->plan, &s->launches[i].args, scratch.data, stream);
    Py_END_ALLOW_THREADS workspace_give(&scratch);
    if (status != ATT_OK)
        failure_raise(status);
    return status == ATT_OK ? 0 : -1;
}

static void drop(merge_steps *s) {
    for (Py_ssize_t i = 0; i < s->done; i++)
        plan_cache_give(s->launches[i].plan);
    workspace_give(&s->space);
    PyMem_Free(s->launches);
    PyMem_Free(s->o);
    PyMem_Free(s->lse);
}

int merge_steps_run(merge_call *m) {
    merge_steps s = {.call = m, .count = count_launches(m)};
    const workspace_place place = {m->frame, m->parts_o.first, m->parts_o.parts[0].device};
    void *stream = NULL;
    const int failed = (tensor_on_gpu(place.device) &&
                        tensor_stream(&stream, m->frame, m->parts_o.first, place.device)) ||
                       reserve(&s) || take_slots(&s, &place) || add_launches(&s) ||
                       run(&s, &place, stream);
    drop(&s);
    return failed ? -1 : 0;
}
