/* library_peer.c: another build of attest as a plug-in, so that two versions are timed in one
 * process.
 *
 *     ATTEST_PEER_LIBRARY=/path/to/old/libattest.so attest bench --suite seed --peer build/peers/attest.so
 *
 * The library is loaded in its own namespace (RTLD_LOCAL, RTLD_DEEPBIND): its functions
 * never mix with those of the program. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "attest_peer.h"

typedef struct library {
    const char *(*version)(void);
    const att_error *(*last_error)(void);
    att_status (*context_create)(att_context **out, const att_context_options *options);
    void (*context_destroy)(att_context *ctx);
    att_status (*plan_create)(att_plan **out, att_context *ctx, const att_problem *problem);
    void (*plan_destroy)(att_plan *plan);
    size_t (*plan_workspace)(const att_plan *plan);
    att_status (*plan_run)(const att_plan *plan, const att_args *args, void *workspace,
                           void *stream);
} library;

typedef struct ready {
    const library *lib;
    att_context *ctx;
    att_plan *plan;
} ready;

static char trouble[512]; /* why there is no library */

static const library *load(void) {
    static library lib;
    static int tried;
    if (tried)
        return lib.plan_run ? &lib : NULL;
    tried = 1;
    const char *path = getenv("ATTEST_PEER_LIBRARY");
    if (!path || !*path) {
        snprintf(trouble, sizeof trouble, "ATTEST_PEER_LIBRARY names no libattest.so");
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!handle) {
        snprintf(trouble, sizeof trouble, "%s", dlerror());
        return NULL;
    }
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"att_version", &lib.version},
        {"att_last_error", &lib.last_error},
        {"att_context_create", &lib.context_create},
        {"att_context_destroy", &lib.context_destroy},
        {"att_plan_create", &lib.plan_create},
        {"att_plan_destroy", &lib.plan_destroy},
        {"att_plan_workspace", &lib.plan_workspace},
        {"att_plan_run", &lib.plan_run},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found) {
            snprintf(trouble, sizeof trouble, "%s has no %s", path, symbols[i].name);
            lib.plan_run = NULL;
            return NULL;
        }
        *(void **)symbols[i].slot = found;
    }
    return &lib;
}

static void destroy(void *state) {
    ready *r = state;
    r->lib->plan_destroy(r->plan);
    r->lib->context_destroy(r->ctx);
    free(r);
}

static int prepare(void **state, const att_problem *problem, const att_peer_device *device,
                   char *why, size_t n) {
    const library *lib = load();
    ready *r = lib ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        snprintf(why, n, "%s", lib ? "no memory" : trouble);
        return 1;
    }
    r->lib = lib;
    const att_context_options options = {.size = sizeof options,
                                         .device = device->device,
                                         .device_index = device->index,
                                         .threads = device->threads,
                                         .rows = ""};
    if (lib->context_create(&r->ctx, &options) != ATT_OK ||
        lib->plan_create(&r->plan, r->ctx, problem) != ATT_OK) {
        snprintf(why, n, "%s", lib->last_error()->text);
        destroy(r);
        return 1;
    }
    *state = r;
    return 0;
}

/* Supported is what that library can plan. */
static int supports(const att_problem *problem, const att_peer_device *device, char *why,
                    size_t n) {
    void *state;
    if (prepare(&state, problem, device, why, n) != 0)
        return 0;
    destroy(state);
    return 1;
}

static size_t workspace(const void *state) {
    const ready *r = state;
    return r->lib->plan_workspace(r->plan);
}

static int run(void *state, const att_args *args, void *space, void *stream, char *why,
               size_t n) {
    const ready *r = state;
    if (r->lib->plan_run(r->plan, args, space, stream) == ATT_OK)
        return 0;
    snprintf(why, n, "%s", r->lib->last_error()->text);
    return 1;
}

ATT_PEER_EXPORT const att_peer *att_peer_get(void) {
    static att_peer table = {.abi = ATT_PEER_ABI,
                             .devices = ATT_PEER_CPU | ATT_PEER_CUDA,
                             .size = sizeof table,
                             .name = "attest-library",
                             .version = "not loaded",
                             .supports = supports,
                             .prepare = prepare,
                             .workspace = workspace,
                             .run = run,
                             .destroy = destroy};
    const library *lib = load();
    if (lib)
        table.version = lib->version();
    return &table;
}
