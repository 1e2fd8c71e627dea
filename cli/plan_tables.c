/* plan_tables.c: prints the kernels and the tiles of a plan. */
#include "cli/plan_tables.h"

#include <inttypes.h>

#include "lab/base/table.h"

/* Tiles that are shown without --all. */
enum { TILES_SHOWN = 12 };

const char *cli_microseconds(char *buf, size_t n, double seconds) {
    const double us = seconds * 1e6;
    snprintf(buf, n, "%.*f us", us < 10.0 ? 2 : us < 100.0 ? 1 : 0, us);
    return buf;
}

/* -------------------------------------------------------------------------------- kernels */

bool cli_plan_is_timed(const lab_plan_result *r) {
    return r->chosen &&
           (r->chosen->model == LAB_TIME_SELECTOR || r->chosen->model == LAB_TIME_DECODE);
}

/* "8", "8 in a cluster", "-" if unknown. */
static void put_parts(lab_table *table, const lab_plan_kernel *k) {
    if (k->splits == 0)
        lab_table_cell(table, "-");
    else
        lab_table_cell(table, "%d%s", k->splits, k->cluster ? " in a cluster" : "");
}

/* A number with that many decimals, "-" if unknown. */
static void put_count(lab_table *table, bool known, int digits, double value) {
    char number[48];
    snprintf(number, sizeof number, "%.*f", digits, value);
    lab_table_cell(table, "%s", known ? number : "-");
}

static void put_kernel(lab_table *table, const lab_plan_result *r, const lab_plan_kernel *k) {
    const att_cuda_kernel *row = k->row->cuda;
    const lab_tile tile = lab_tile_of_row(row);
    const bool timed = k->model != LAB_TIME_NONE;
    char text[48];
    lab_table_cell(table, "%s", row->id);
    lab_tile_name(&tile, text, sizeof text);
    lab_table_cell(table, "%s", text);
    lab_table_cell(table, "%" PRIu32, k->threads);
    lab_table_cell(table, "%" PRIu32, k->shared);
    lab_table_cell(table, "%.0f", k->tiles);
    put_parts(table, k);
    put_count(table, k->splits > 0, 0, k->blocks);
    put_count(table, k->splits > 0, 2, k->rounds);
    lab_table_cell(table, "%s", timed ? cli_microseconds(text, sizeof text, k->seconds) : "-");
    snprintf(text, sizeof text, "%.1f x", k->seconds / lab_floor_seconds(&r->floor));
    lab_table_cell(table, "%s", timed ? text : "-");
    lab_table_cell(table, "%s%s", lab_time_model_name(k->model),
                   k->chosen ? "   <- chosen" : "");
}

/* By its own file, or for a GPU of this machine by the file of its name. */
static bool is_fitted(const lab_device *device) {
    lab_device file;
    return device->fitted || (lab_device_named(&file, device->limits.name) && file.fitted);
}

void cli_plan_put_kernels(FILE *text, const lab_plan_result *r, const lab_device *device) {
    static const lab_table_column columns[] = {
        {"kernel", LAB_TABLE_LEFT},     {"tile", LAB_TABLE_LEFT},
        {"threads", LAB_TABLE_RIGHT},   {"shared B", LAB_TABLE_RIGHT},
        {"tiles", LAB_TABLE_RIGHT},     {"key parts", LAB_TABLE_LEFT},
        {"blocks", LAB_TABLE_RIGHT},    {"rounds", LAB_TABLE_RIGHT},
        {"predicted", LAB_TABLE_RIGHT}, {"of floor", LAB_TABLE_RIGHT},
        {"time model", LAB_TABLE_LEFT},
    };
    fprintf(text, "kernels   %zu serve it:\n\n", r->kernel_count);
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < r->kernel_count; i++)
        put_kernel(table, r, &r->kernels[i]);
    lab_table_print(table, text);
    lab_table_destroy(table);
    fputc('\n', text);
    if (cli_plan_is_timed(r) && !is_fitted(device))
        fputs("note      the times of the library's own models were fitted on an H200\n", text);
}

/* ---------------------------------------------------------------------------------- tiles */

static void put_fitting(FILE *text, const lab_plan_result *r, size_t shown) {
    static const lab_table_column columns[] = {
        {"tile", LAB_TABLE_LEFT},       {"shared B", LAB_TABLE_RIGHT},
        {"registers", LAB_TABLE_RIGHT}, {"blocks/SM", LAB_TABLE_RIGHT},
        {"occupancy", LAB_TABLE_RIGHT}, {"limited by", LAB_TABLE_LEFT},
        {"splits", LAB_TABLE_RIGHT},    {"grid", LAB_TABLE_RIGHT},
        {"waves", LAB_TABLE_RIGHT},     {"tail", LAB_TABLE_RIGHT},
        {"useful", LAB_TABLE_RIGHT},    {"predicted", LAB_TABLE_RIGHT},
        {"of floor", LAB_TABLE_RIGHT},  {"kernel", LAB_TABLE_LEFT},
    };
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < r->fitting; i++) {
        const lab_tile *tile = &r->tiles[i];
        if (i >= shown && !tile->id)
            continue; /* a tile that is built is always shown */
        char name[48], time[32];
        lab_tile_name(tile, name, sizeof name);
        lab_table_cell(table, "%s", name);
        lab_table_cell(table, "%" PRIu32, tile->shared);
        lab_table_cell(table, "%d", tile->registers);
        lab_table_cell(table, "%d", tile->blocks);
        lab_table_cell(table, "%.0f %%", 100.0 * tile->occupancy);
        lab_table_cell(table, "%s", lab_limit_name(tile->limited));
        lab_table_cell(table, "%d", tile->splits);
        lab_table_cell(table, "%.0f", tile->grid);
        lab_table_cell(table, "%.2f", tile->waves);
        lab_table_cell(table, "%.0f %%", 100.0 * tile->tail);
        lab_table_cell(table, "%.0f %%", 100.0 * tile->useful);
        lab_table_cell(table, "%s", cli_microseconds(time, sizeof time, tile->seconds));
        lab_table_cell(
            table, "%.1f x",
            tile->seconds > 0.0 ? tile->seconds / lab_floor_seconds(&r->floor) : 0.0);
        lab_table_cell(table, "%s", tile->id ? tile->id : "");
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
}

/* The limit that a tile exceeds, with its number. */
static void describe_break(const lab_tile *tile, const lab_device *device, char *buf,
                           size_t n) {
    if (tile->breaks == ATT_RESOURCE_SHARED &&
        tile->shared > (uint32_t)device->limits.shared_per_block)
        snprintf(buf, n, "shared memory: %" PRIu32 " B, the limit per block is %d",
                 tile->shared, device->limits.shared_per_block);
    else if (tile->breaks != ATT_RESOURCE_REGISTERS)
        snprintf(buf, n, "%s: one block needs more than an SM has",
                 lab_limit_name(tile->breaks));
    else
        snprintf(buf, n, "registers: about %d per thread, too many for a block of %d threads",
                 tile->registers, 32 * tile->warps);
}

static void put_broken(FILE *text, const lab_plan_result *r, const lab_device *device,
                       bool all) {
    size_t counts[ATT_RESOURCE_COUNT] = {0};
    for (size_t i = r->fitting; i < r->tile_count; i++) {
        const lab_tile *tile = &r->tiles[i];
        char name[48], why[160];
        counts[tile->breaks]++;
        if (!all && !tile->id)
            continue;
        lab_tile_name(tile, name, sizeof name);
        describe_break(tile, device, why, sizeof why);
        fprintf(text, "no fit    %-14s %s%s%s\n", name, why, tile->id ? "  " : "",
                tile->id ? tile->id : "");
    }
    if (all)
        return;
    fprintf(text, "no fit    %zu of %zu tiles:", r->tile_count - r->fitting, r->tile_count);
    const char *separator = " ";
    for (int i = 0; i < ATT_RESOURCE_COUNT; i++)
        if (counts[i]) {
            fprintf(text, "%s%zu by %s", separator, counts[i],
                    lab_limit_name((att_cuda_resource)i));
            separator = ", ";
        }
    fputs("; --all lists them\n", text);
}

static void put_best(FILE *text, const lab_tile *best) {
    char name[48], time[32];
    lab_tile_name(best, name, sizeof name);
    fprintf(text, "best      %s, predicted %s%s%s\n", name,
            cli_microseconds(time, sizeof time, best->seconds), best->id ? ": " : "",
            best->id ? best->id : "");
}

void cli_plan_put_tiles(FILE *text, const lab_plan_result *r, const lab_device *device,
                        const lab_spec *spec, bool all) {
    if (r->tile_count == 0) {
        fprintf(text, "tiles     none: %s\n",
                r->work.pairs <= 0.0 ? "there is nothing to compute"
                : spec->problem.dtype == ATT_F32
                    ? "tensor cores round f32, so there is no tile for it"
                    : "the head dimension is above 256");
        return;
    }
    fprintf(text, "tiles     %zu of %zu fit", r->fitting, r->tile_count);
    if (!all && r->fitting > TILES_SHOWN)
        fprintf(text, "; the %d fastest by the model, and those that are built:", TILES_SHOWN);
    fputs("\n\n", text);
    put_fitting(text, r, all ? r->fitting : TILES_SHOWN);
    fputc('\n', text);
    put_broken(text, r, device, all);
    if (r->fitting > 0)
        put_best(text, &r->tiles[0]);
}
