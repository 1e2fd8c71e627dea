/* ranks_table.c: attest plan --ranks. */
#include "cli/ranks_table.h"

#include "cli/plan_tables.h"
#include "lab/base/table.h"
#include "lab/plan/plan_ranks.h"
#include "lab/plan/plan_result.h"

bool cli_ranks_asked_well(const cli_options *o, const lab_spec *specs, size_t count) {
    if (!o->rank_count && o->link.bytes_per_second > 0.0)
        return cli_complain(o, "--link needs --ranks N");
    if (!o->rank_count && o->whole > 0.0)
        return cli_complain(o, "--whole needs --ranks N");
    if (o->rank_count && !(o->link.bytes_per_second > 0.0))
        return cli_complain(o, "--ranks needs --link: GB/s and microseconds between two ranks, "
                               "such as 450,5");
    for (size_t i = 0; o->rank_count && i < count; i++) {
        const att_problem *p = &specs[i].problem;
        if (specs[i].operation != &lab_operation_attention &&
            specs[i].operation != &lab_operation_backward)
            return cli_complain(o, "--ranks: only attention and its backward pass can be "
                                   "split over ranks");
        if (p->seq_q < 1 || p->seq_k < 1 || p->batch < 1)
            return cli_complain(o, "--ranks: a problem without rows or keys cannot be split");
    }
    return true;
}

static void put_way(lab_table *table, const lab_ranks_plan *plan, lab_way way) {
    const lab_way_time *t = &plan->ways[way];
    char time[32];
    lab_table_cell(table, "%s", lab_way_name(way));
    if (!t->possible) {
        for (int i = 0; i < 5; i++)
            lab_table_cell(table, "-");
        lab_table_cell(table, "%s", t->why);
        lab_table_end_row(table);
        return;
    }
    lab_table_cell(table, "%d x %d", t->ring, t->heads);
    lab_table_cell(table, "%s", cli_microseconds(time, sizeof time, t->compute));
    lab_table_cell(table, "%s", cli_microseconds(time, sizeof time, t->send));
    lab_table_cell(table, "%s", cli_microseconds(time, sizeof time, t->seconds));
    lab_table_cell(table, "%.0f %%", 100.0 * plan->whole / (plan->ranks * t->seconds));
    lab_table_cell(table, "%s", way == plan->best ? "<- best" : "");
    lab_table_end_row(table);
}

json_t *cli_plan_put_ranks(FILE *text, const cli_options *o, const lab_spec *spec, double whole,
                           double memory) {
    static const lab_table_column columns[] = {
        {"way", LAB_TABLE_LEFT},       {"ring x heads", LAB_TABLE_RIGHT},
        {"compute", LAB_TABLE_RIGHT},  {"send", LAB_TABLE_RIGHT},
        {"together", LAB_TABLE_RIGHT}, {"of ideal", LAB_TABLE_RIGHT},
        {"", LAB_TABLE_LEFT}};
    json_t *list = json_array();
    char time[32];
    for (size_t i = 0; i < o->rank_count; i++) {
        lab_ranks_plan plan;
        lab_ranks_plan_make(&plan, &spec->problem, o->ranks[i], whole, &o->link, memory,
                            spec->operation == &lab_operation_backward);
        fprintf(text, "\n%d ranks   one would take %s; a link of %.4g GB/s and %.4g us\n",
                plan.ranks, cli_microseconds(time, sizeof time, whole),
                o->link.bytes_per_second / 1e9, o->link.latency * 1e6);
        lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
        for (int w = 0; w < LAB_WAY_COUNT; w++)
            put_way(table, &plan, (lab_way)w);
        lab_table_print(table, text);
        lab_table_destroy(table);
        json_array_append_new(list, lab_ranks_plan_object(&plan));
    }
    return list;
}
