/* verify_rows.c: all rows, or a sample that keeps to where kernels break. */
#include "lab/tensors/verify_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lab/base/random.h"

enum { STREAM_ROWS = 1000, FEWEST_ROWS = 32 };

static int64_t batch_of(const lab_tensors *t) {
    return t->spec.operation->batch(&t->spec);
}

static int64_t heads_of(const lab_tensors *t) {
    return t->spec.operation->heads(&t->spec);
}

static int64_t rows_of(const lab_tensors *t, int64_t b) {
    return t->spec.operation->rows(&t->spec, &t->any, b);
}

static void add(lab_rows *rows, int64_t room, lab_row row) {
    if (rows->count < room)
        rows->list[rows->count++] = row;
}

static void add_all(lab_rows *rows, const lab_tensors *t) {
    for (int64_t b = 0; b < batch_of(t); b++)
        for (int64_t h = 0; h < heads_of(t); h++)
            for (int64_t i = 0; i < rows_of(t, b); i++)
                add(rows, rows->total, (lab_row){b, h, i});
}

/* First and last rows, at most half of the room: spread over the sequences by a stride. */
static void add_ends(lab_rows *rows, int64_t room, const lab_tensors *t) {
    const int64_t sequences = batch_of(t) * heads_of(t);
    const int64_t step = att_max(1, att_ceil_div(sequences, att_max(1, room / 4)));
    for (int64_t n = 0; n < sequences; n += step) {
        const int64_t b = n / heads_of(t), h = n % heads_of(t), len = rows_of(t, b);
        if (len > 0)
            add(rows, room, (lab_row){b, h, 0});
        if (len > 1)
            add(rows, room, (lab_row){b, h, len - 1});
    }
}

static void add_drawn(lab_rows *rows, int64_t room, const lab_tensors *t, uint64_t seed) {
    static const int64_t tiles[] = {8, 16, 32, 48, 64, 128, 256};
    lab_random random;
    lab_random_seed(&random, seed, STREAM_ROWS);
    while (rows->count < room) {
        const int64_t b = lab_random_below(&random, batch_of(t));
        const int64_t h = lab_random_below(&random, heads_of(t));
        const int64_t len = rows_of(t, b);
        if (len == 0)
            continue;
        int64_t i = lab_random_below(&random, len);
        if (rows->count % 2 == 0) { /* every other one: next to a tile edge */
            const int64_t tile = tiles[lab_random_below(&random, 7)];
            i = i / tile * tile - lab_random_below(&random, 2);
        }
        add(rows, room, (lab_row){b, h, att_max(i, 0)});
    }
}

bool lab_rows_choose(lab_rows *rows, const lab_tensors *t, uint64_t seed, int64_t max_work) {
    *rows = (lab_rows){0};
    if (t->spec.operation->is_empty(&t->spec))
        return true;
    for (int64_t b = 0; b < batch_of(t); b++)
        rows->total += heads_of(t) * rows_of(t, b);
    if (rows->total == 0)
        return true;

    /* Work of a row where all keys are visible is d_qk + d_v a key; flops count each twice. Every row
     * also costs a little by itself. */
    const double work = lab_spec_flops(&t->spec) / 2.0 + 64.0 * (double)rows->total;
    int64_t room = rows->total;
    if (work > (double)max_work) {
        room = (int64_t)((double)rows->total * ((double)max_work / work));
        room = att_min(att_max(room, FEWEST_ROWS), rows->total);
    }
    rows->list = malloc((size_t)room * sizeof *rows->list);
    if (!rows->list)
        return false;
    if (room == rows->total) {
        add_all(rows, t);
    } else {
        add_ends(rows, room, t);
        add_drawn(rows, room, t, seed);
    }
    return true;
}

bool lab_rows_copy(lab_rows *rows, const lab_row *list, size_t count) {
    *rows = (lab_rows){.total = (int64_t)count, .count = (int64_t)count};
    rows->list = malloc((count + 1) * sizeof *list);
    if (rows->list)
        memcpy(rows->list, list, count * sizeof *list);
    return rows->list != NULL;
}

void lab_rows_free(lab_rows *rows) {
    free(rows->list);
    *rows = (lab_rows){0};
}
