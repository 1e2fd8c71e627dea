/* test_reload.c: the shared library loaded, used, unloaded and loaded again. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/check.h"

/* The functions of the library that is currently loaded. */
typedef struct library {
    void *handle;
    att_status (*context_create)(att_context **, const att_context_options *);
    void (*context_destroy)(att_context *);
    void (*problem_init)(att_problem *, size_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, att_dtype);
    att_status (*plan_create)(att_plan **, att_context *, const att_problem *);
    void (*plan_destroy)(att_plan *);
    size_t (*plan_workspace)(const att_plan *);
    att_status (*plan_run)(const att_plan *, const att_args *, void *, void *);
} library;

static void find(const library *lib, const char *name, void *function) {
    *(void **)function = dlsym(lib->handle, name);
    assert_non_null(*(void **)function);
}

static library load(void) {
    library lib = {.handle = dlopen(LIBATTEST_SO, RTLD_NOW | RTLD_LOCAL)};
    if (!lib.handle)
        fail_msg("%s", dlerror());
    find(&lib, "att_context_create", &lib.context_create);
    find(&lib, "att_context_destroy", &lib.context_destroy);
    find(&lib, "att_problem_init_sized", &lib.problem_init);
    find(&lib, "att_plan_create", &lib.plan_create);
    find(&lib, "att_plan_destroy", &lib.plan_destroy);
    find(&lib, "att_plan_workspace", &lib.plan_workspace);
    find(&lib, "att_plan_run", &lib.plan_run);
    return lib;
}

static int thread_count(void) {
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(tasks));)
        n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* A joined thread stays in the list for a moment: the kernel wakes the waiter before it removes
 * the thread. */
static void assert_thread_count(int expected) {
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < 1000 && thread_count() != expected; i++)
        nanosleep(&moment, NULL);
    assert_int_equal(thread_count(), expected);
}

enum { ROWS = 256, D = 64, COUNT = ROWS * D };

static att_context *open_threads(const library *lib) {
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 4};
    att_context *ctx;
    assert_int_equal(lib->context_create(&ctx, &options), ATT_OK);
    return ctx;
}

static void compute(const library *lib, att_context *ctx) {
    static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];
    for (int i = 0; i < COUNT; i++)
        v[i] = 3.0f;
    att_plan *plan;
    att_problem p;
    lib->problem_init(&p, sizeof p, 1, 1, 1, ROWS, ROWS, D, D, ATT_F32);
    assert_int_equal(lib->plan_create(&plan, ctx, &p), ATT_OK);
    const size_t bytes = (lib->plan_workspace(plan) + 63) / 64 * 64;
    void *workspace = bytes ? aligned_alloc(64, bytes) : NULL;
    const att_args args = {.size = sizeof args, .q = q, .k = k, .v = v, .o = o};
    assert_int_equal(lib->plan_run(plan, &args, workspace, NULL), ATT_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(o[i] == 3.0f);
    free(workspace);
    lib->plan_destroy(plan);
}

static void
test_library__loaded_and_unloaded_in_a_loop__works_and_leaves_no_thread(void **state) {
    (void)state;
    const int threads = thread_count();
    for (int i = 0; i < 25; i++) {
        const library lib = load();
        att_context *ctx = open_threads(&lib);
        compute(&lib, ctx);
        lib.context_destroy(ctx);
        assert_thread_count(threads);
        assert_int_equal(dlclose(lib.handle), 0);
    }
}

/* In a separate process, which a thread in unmapped code would end with a signal: the threads
 * are still looking for work when the library is closed, and find some later. */
static void close_with_live_context(void) {
    const struct timespec moment = {.tv_nsec = 100000000};
    const library lib = load();
    att_context *ctx = open_threads(&lib);
    compute(&lib, ctx);
    assert_int_equal(dlclose(lib.handle), 0);
    nanosleep(&moment, NULL);
    const library again = load();
    compute(&again, ctx);
    again.context_destroy(ctx);
    assert_int_equal(dlclose(again.handle), 0);
}

static void test_library__closed_with_a_live_context__threads_keep_their_code(void **state) {
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close_with_live_context();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFSIGNALED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_library__error_then_unload__reloads_clean(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        const library lib = load();
        const att_error *(*last_error)(void);
        find(&lib, "att_last_error", &last_error);
        assert_int_equal(lib.context_create(NULL, NULL), ATT_E_ARG);
        assert_int_equal(last_error()->status, ATT_E_ARG);
        assert_int_equal(dlclose(lib.handle), 0);
    }
}

static void test_library__internal_names__not_exported(void **state) {
    (void)state;
    const library lib = load();
    static const char *const internal[] = {"att_fail", "att_alloc", "att_alloc_fail_after",
                                           "att_ref_row", "att_f32_to_f16"};
    for (size_t i = 0; i < sizeof internal / sizeof internal[0]; i++)
        assert_null(dlsym(lib.handle, internal[i]));
    dlclose(lib.handle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_library__loaded_and_unloaded_in_a_loop__works_and_leaves_no_thread),
        cmocka_unit_test(test_library__closed_with_a_live_context__threads_keep_their_code),
        cmocka_unit_test(test_library__error_then_unload__reloads_clean),
        cmocka_unit_test(test_library__internal_names__not_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
