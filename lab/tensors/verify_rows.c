/* verify_rows.c: all rows, or a sample of the places where kernels tend to fail. */
#include "lab/tensors/verify_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lab/base/random.h"
#include "lab/tensors/output_rows.h"

enum { STREAM_ROWS = 1000 };

/* The list under construction: of one set, up to `room` rows. */
typedef struct chooser {
    lab_rows *rows;
    const lab_tensors *t;
    int set;
    lab_row_set all;
    int64_t total, room; /* of the set */
} chooser;

static int64_t rows_of(const chooser *c, int64_t b) {
    return c->t->spec.operation->rows(&c->t->spec, &c->t->any, c->set, b);
}

static bool is_full(const chooser *c) {
    return c->rows->of_set[c->set] >= c->room;
}

static void add(chooser *c, int64_t b, int64_t h, int64_t i) {
    if (is_full(c))
        return;
    c->rows->list[c->rows->count++] = (lab_row){b, h, i, c->set};
    c->rows->of_set[c->set]++;
}

static void add_all(chooser *c) {
    for (int64_t b = 0; b < c->all.batch; b++)
        for (int64_t h = 0; h < c->all.heads; h++)
            for (int64_t i = 0; i < rows_of(c, b); i++)
                add(c, b, h, i);
}

/* First and last rows, at most half of the room: spread over the sequences with a stride. */
static void add_ends(chooser *c) {
    const int64_t sequences = c->all.batch * c->all.heads;
    const int64_t step = att_max(1, att_ceil_div(sequences, att_max(1, c->room / 4)));
    for (int64_t n = 0; n < sequences; n += step) {
        const int64_t b = n / c->all.heads, h = n % c->all.heads, len = rows_of(c, b);
        if (len > 0)
            add(c, b, h, 0);
        if (len > 1)
            add(c, b, h, len - 1);
    }
}

static void add_drawn(chooser *c, uint64_t seed) {
    static const int64_t tiles[] = {8, 16, 32, 48, 64, 128, 256};
    lab_random random;
    lab_random_seed(&random, seed, STREAM_ROWS + (uint64_t)c->set);
    while (!is_full(c)) {
        const int64_t b = lab_random_below(&random, c->all.batch);
        const int64_t h = lab_random_below(&random, c->all.heads);
        const int64_t len = rows_of(c, b);
        if (len == 0)
            continue;
        int64_t i = lab_random_below(&random, len);
        if (c->rows->of_set[c->set] % 2 == 0) { /* every other one: next to a tile edge */
            const int64_t tile = tiles[lab_random_below(&random, 7)];
            i = i / tile * tile - lab_random_below(&random, 2);
        }
        add(c, b, h, att_max(i, 0));
    }
}

/* Every row also has a small fixed cost. */
static double work_of(const chooser *c) {
    return c->total > 0 ? c->all.work + 64.0 * (double)c->total : 0.0;
}

static int64_t room_of(const chooser *c, double share) {
    if (share >= 1.0)
        return c->total;
    const int64_t room = (int64_t)((double)c->total * share);
    return att_min(att_max(room, c->all.fewest), c->total);
}

bool lab_rows_choose(lab_rows *rows, const lab_tensors *t, uint64_t seed, int64_t max_work) {
    chooser set[LAB_SETS_MAX];
    double work = 0.0;
    int64_t room = 0;
    const int sets = t->spec.operation->sets;
    *rows = (lab_rows){0};
    for (int i = 0; i < sets; i++) {
        set[i] = (chooser){.rows = rows, .t = t, .set = i, .total = lab_set_count(t, i)};
        if (set[i].total > 0)
            set[i].all = t->spec.operation->set(&t->spec, i);
        rows->total += set[i].total;
        work += work_of(&set[i]);
    }
    if (rows->total == 0)
        return true;
    for (int i = 0; i < sets; i++)
        room += set[i].room = room_of(&set[i], work > 0.0 ? (double)max_work / work : 1.0);
    rows->list = malloc((size_t)room * sizeof *rows->list);
    if (!rows->list)
        return false;
    for (int i = 0; i < sets; i++)
        if (set[i].room == set[i].total) {
            add_all(&set[i]);
        } else {
            add_ends(&set[i]);
            add_drawn(&set[i], seed);
        }
    return true;
}

bool lab_rows_copy(lab_rows *rows, const lab_row *list, size_t count) {
    *rows = (lab_rows){.total = (int64_t)count, .count = (int64_t)count};
    rows->list = malloc((count + 1) * sizeof *list);
    if (rows->list)
        memcpy(rows->list, list, count * sizeof *list);
    for (size_t i = 0; i < count; i++)
        rows->of_set[list[i].set]++;
    return rows->list != NULL;
}

void lab_rows_free(lab_rows *rows) {
    free(rows->list);
    *rows = (lab_rows){0};
}
