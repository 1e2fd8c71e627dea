/* peer.c: a plug-in as a subject. */
#include "lab/subject/peer.h"

#include <stdio.h>
#include <stdlib.h>

#include "cuda/device.h"
#include "lab/subject/peer_crash.h"

enum { WHY = 300 }; /* bytes of a reason; the last stays 0 whatever the peer writes */

/* A prepared peer. */
typedef struct guest {
    const lab_peer *peer;
    void *state;
    att_cuda_device *gpu; /* NULL on the CPU */
    double run_seconds;   /* limit for a run */
} guest;

/* Generous limits for slow machines: a plug-in that reads a file or compiles in prepare(), and
 * a run at 10^8 operations per second. */
static const double call_seconds = 60.0, prepare_seconds = 600.0, slowest_flops = 1e8;

/* Make the GPU's context current while the peer is called. */
static bool enter(const guest *g, const char *call, double seconds, bool *entered) {
    *entered = false;
    if (g->gpu && att_cuda_device_enter_once(g->gpu, entered) != ATT_OK)
        return false;
    lab_peer_enter(g->peer->table.name, call, seconds);
    return true;
}

static void leave(const guest *g, bool entered) {
    lab_peer_leave();
    if (entered)
        att_cuda_device_leave(g->gpu);
}

/* "name: prepare() failed with 3: no memory"; returns the status. */
static att_status broke(const guest *g, att_status status, const char *call, int code,
                        const char *text, lab_message *why) {
    lab_fail(why, "%s: %s failed with %d%s%s", g->peer->table.name, call, code,
             *text ? ": " : "", text);
    return status;
}

static att_status device_of(att_peer_device *out, guest *g, att_context *ctx,
                            lab_message *why) {
    const att_peer *table = &g->peer->table;
    att_context_info info = {.size = sizeof info};
    att_status status = att_context_query(ctx, &info);
    const bool gpu = info.device == ATT_DEVICE_CUDA;
    if (status == ATT_OK && gpu)
        status = att_cuda_device_open(&g->gpu, info.device_index);
    if (status != ATT_OK) {
        lab_fail(why, "%s", att_last_error()->text);
        return status;
    }
    if (!(table->devices & (gpu ? ATT_PEER_CUDA : ATT_PEER_CPU))) {
        lab_fail(why, "%s: devices: it does not compute on %s", table->name,
                 gpu ? "a GPU" : "the CPU");
        return ATT_E_UNSUPPORTED;
    }
    *out = (att_peer_device){.size = sizeof *out,
                             .device = gpu ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU,
                             .index = gpu ? info.device_index : 0,
                             .threads = info.threads};
    return ATT_OK;
}

/* Call supports(), then prepare(). The device's context is current. */
static att_status call_prepare(guest *g, const att_problem *problem,
                               const att_peer_device *device, lab_message *why) {
    const att_peer *table = &g->peer->table;
    char text[WHY] = "";
    lab_peer_enter(table->name, "supports()", call_seconds);
    if (!table->supports(problem, device, text, sizeof text - 1)) {
        lab_fail(why, "%s: supports: %s", table->name, *text ? text : "it gives no reason");
        return ATT_E_UNSUPPORTED;
    }
    text[0] = '\0';
    lab_peer_enter(table->name, "prepare()", prepare_seconds);
    const int code = table->prepare(&g->state, problem, device, text, sizeof text - 1);
    if (code == 0)
        return ATT_OK;
    return broke(g, ATT_E_SYSTEM, "supports() takes the problem, but prepare()", code, text,
                 why);
}

/* The operations if every row sees every key. */
static double most_operations(const att_problem *p) {
    return 2.0 * (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_k *
           (double)(p->d_qk + p->d_v);
}

static att_status guest_prepare(const lab_subject *subject, const lab_spec *spec, void **state,
                                lab_message *why) {
    const att_problem *problem = &spec->problem;
    guest *g = calloc(1, sizeof *g);
    att_peer_device device;
    bool entered = false;
    *state = NULL;
    if (spec->operation != &lab_operation_attention) {
        free(g);
        lab_fail(why, "%s: plug-ins compute attention, not %s", subject->name,
                 lab_spec_operation(spec));
        return ATT_E_UNSUPPORTED;
    }
    if (!g) {
        lab_fail(why, "no memory");
        return ATT_E_MEMORY;
    }
    g->peer = subject->self;
    g->run_seconds = call_seconds + most_operations(problem) / slowest_flops;
    att_status status = device_of(&device, g, subject->ctx, why);
    if (status == ATT_OK && !enter(g, "supports()", call_seconds, &entered)) {
        lab_fail(why, "%s", att_last_error()->text);
        status = ATT_E_CUDA;
    } else if (status == ATT_OK) {
        status = call_prepare(g, problem, &device, why);
        leave(g, entered);
    }
    if (status != ATT_OK)
        free(g);
    else
        *state = g;
    return status;
}

static size_t guest_workspace(const void *state) {
    const guest *g = state;
    lab_peer_enter(g->peer->table.name, "workspace()", call_seconds);
    const size_t bytes = g->peer->table.workspace(g->state);
    lab_peer_leave();
    return bytes;
}

static const char *guest_kernel(const void *state) {
    (void)state;
    return NULL;
}

static att_status call_run(const guest *g, att_peer_run run, const char *call,
                           const att_args *args, void *workspace, void *stream,
                           lab_message *why) {
    char text[WHY] = "";
    bool entered;
    if (!enter(g, call, g->run_seconds, &entered)) {
        lab_fail(why, "%s", att_last_error()->text);
        return ATT_E_CUDA;
    }
    const int code = run(g->state, args, workspace, stream, text, sizeof text - 1);
    leave(g, entered);
    return code == 0 ? ATT_OK : broke(g, ATT_E_SYSTEM, call, code, text, why);
}

static att_status guest_run(void *state, const lab_operation *operation, const lab_args *args,
                            void *workspace, void *stream, lab_message *why) {
    const guest *g = state;
    (void)operation;
    return call_run(g, g->peer->table.run, "run()", &args->attention, workspace, stream, why);
}

static void guest_destroy(void *state) {
    guest *g = state;
    lab_peer_enter(g->peer->table.name, "destroy()", call_seconds);
    g->peer->table.destroy(g->state);
    lab_peer_leave();
    free(g);
}

static att_status guest_direct(void *state, const lab_operation *operation,
                               const lab_args *args, void *workspace, void *stream,
                               lab_message *why) {
    const guest *g = state;
    (void)operation;
    return call_run(g, g->peer->table.direct, "direct()", &args->attention, workspace, stream,
                    why);
}

#define GUEST_OPS                                                                              \
    .prepare = guest_prepare, .workspace = guest_workspace, .kernel = guest_kernel,            \
    .run = guest_run, .destroy = guest_destroy

static const lab_subject_ops direct_ops = {.run = guest_direct};
static const lab_subject_ops guest_ops = {GUEST_OPS};
static const lab_subject_ops guest_ops_direct = {GUEST_OPS, .direct = &direct_ops};

lab_subject lab_subject_peer(const lab_peer *peer, att_context *ctx) {
    return (lab_subject){.ops = peer->table.direct ? &guest_ops_direct : &guest_ops,
                         .name = peer->table.name,
                         .version = peer->table.version,
                         .ctx = ctx,
                         .copies = peer->table.copies,
                         .self = (void *)(uintptr_t)peer};
}
