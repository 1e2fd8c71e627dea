/* test_plan_budgets.c: the planner compared with the compiler: kernels/budgets.txt has the
 * resources of every kernel (tests/budgets.sh compares it with the build). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/shape.h"
#include "lab/plan/plan_tiles.h"
#include "core/registry.h"

typedef struct budget {
    char id[64], target[16];
    int registers, shared, spills, stack;
} budget;

enum { BUDGETS_MAX = 4096 };
static budget budgets[BUDGETS_MAX];
static size_t budget_count;

static int read_budgets(void **state) {
    (void)state;
    FILE *file = fopen("kernels/budgets.txt", "r");
    char line[256];
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file)) {
        budget *b = &budgets[budget_count];
        if (*line == '#')
            continue;
        if (budget_count == BUDGETS_MAX ||
            sscanf(line, "%63s %15s %d %d %d %d", b->id, b->target, &b->registers, &b->shared,
                   &b->spills, &b->stack) != 6)
            break;
        budget_count++;
    }
    const int whole = feof(file);
    fclose(file);
    return whole ? 0 : -1;
}

static const struct {
    const char *name;
    uint32_t bit;
    int shared_per_block;
} targets[] = {{"sm_80", ATT_SM80, 163 * 1024},
               {"sm_80", ATT_SM86_89, 99 * 1024}, /* the same code, in less room */
               {"sm_90a", ATT_SM90, 227 * 1024}};
enum { TARGETS = sizeof targets / sizeof targets[0] };

static const budget *budget_of(const char *id, const char *target) {
    for (size_t i = 0; i < budget_count; i++)
        if (strcmp(budgets[i].id, id) == 0 && strcmp(budgets[i].target, target) == 0)
            return &budgets[i];
    return NULL;
}

/* Call `check` for every GPU row and every target that it is compiled for. */
static void for_every_code(void (*check)(const att_cuda_kernel *, int, const budget *)) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *row = att_registry_row(i)->cuda;
        for (int t = 0; row && t < TARGETS; t++) {
            if (!(row->targets & targets[t].bit))
                continue;
            const budget *b = budget_of(row->id, targets[t].name);
            if (!b)
                fail_msg("%s has no budget for %s; make budgets", row->id, targets[t].name);
            check(row, t, b);
        }
    }
}

static void check_block(const att_cuda_kernel *row, int t, const budget *b) {
    const int shared = (int)att_cuda_kernel_shared(row) + b->shared;
    if (shared > targets[t].shared_per_block)
        fail_msg("%s takes %d bytes of shared memory, a GPU of its targets has %d", row->id,
                 shared, targets[t].shared_per_block);
    const int threads = (int)att_cuda_kernel_threads(row);
    if ((b->registers + 7) / 8 * 8 * threads > 65536)
        fail_msg("%s: %d registers x %d threads do not fit an SM", row->id, b->registers,
                 threads);
}

static void test_kernels__every_target__has_room_for_a_block(void **state) {
    (void)state;
    for_every_code(check_block);
}

static void check_spills(const att_cuda_kernel *row, int t, const budget *b) {
    if (row->role != ATT_ROLE_RUNG && b->spills > 0)
        fail_msg("%s spills %d bytes on %s", row->id, b->spills, targets[t].name);
}

static void test_kernels__in_production__spill_nothing(void **state) {
    (void)state;
    for_every_code(check_spills);
}

static void check_model(const att_cuda_kernel *row, int t, const budget *b) {
    if (strcmp(row->source, "fwd_sm80") != 0 || row->role == ATT_ROLE_GENERAL)
        return;
    const lab_tile tile = lab_tile_of_row(row);
    const int model = lab_tile_registers(&tile);
    print_message("%-34s %-6s compiler %3d, model %3d\n", row->id, targets[t].name,
                  b->registers, model);
    if (abs(model - b->registers) > LAB_REGISTER_MARGIN)
        fail_msg("%s on %s has %d registers, the model says %d, margin %d", row->id,
                 targets[t].name, b->registers, model, LAB_REGISTER_MARGIN);
}

static void test_model__registers__are_within_the_margin_of_the_compilers(void **state) {
    (void)state;
    for_every_code(check_model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels__every_target__has_room_for_a_block),
        cmocka_unit_test(test_kernels__in_production__spill_nothing),
        cmocka_unit_test(test_model__registers__are_within_the_margin_of_the_compilers),
    };
    return cmocka_run_group_tests(tests, read_budgets, NULL);
}
