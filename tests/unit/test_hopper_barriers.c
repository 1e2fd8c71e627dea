/* test_hopper_barriers.c: who waits for whom in fwd_sm90. The warp that loads, the warp that
 * stores and the warpgroups are agents that run until they wait, in random order; barriers
 * have phases like those in shared memory. In any order, some agent must be able to continue
 * until all are done, and no barrier may be two phases past one that an agent still waits
 * for: the wait would then match the wrong phase. The steps are those of
 * kernels/fwd_sm90.cu, fwd_sm90_load.cuh, fwd_sm90_bias.cuh and fwd_sm90_store.cuh, function
 * by function under the same names, which test_hopper_steps.c checks; the computation
 * between them does not matter. */
#include <stdint.h>
#include <ucontext.h>

#include "tests/support/check.h"
#include "tests/support/rng.h"

enum {
    GROUPS_MOST = 4,
    PLACES_MOST = 8,
    RECORDS = 4,
    TILES_MOST = 9,
    BIAS_PLACES = 2,
    AGENTS = 2 * GROUPS_MOST + 2,
    STACK = 64 * 1024
};

/* Which part of shared memory holds Q and O (fwd_sm90_shared.cuh). */
typedef enum layout {
    RICH,  /* two places for Q, one for O */
    ONE_Q, /* one for Q, which is moved to registers, and one for O */
    FAIR,  /* two for Q; O leaves through the place of its Q */
    POOR   /* one for Q, through which O leaves */
} layout;

typedef struct shape {
    int groups, k_places, v_places;
    layout layout;
    bool bias; /* a warp loads it for each warpgroup */
} shape;

/* Switches of the kernel, and steps that are left out or late, to test that this is noticed. */
typedef struct variant {
    bool carry, ahead, turns;
    bool paged; /* a separate warp loads V; not with a bias */
    bool split; /* keys in parts: nothing is carried over, and warpgroups without rows still
                 * take part */
    bool idle_q_late;  /* a warpgroup without rows frees Q after the last V */
    bool o_not_waited; /* O of the next tile does not wait for the storing warp */
    bool bias_kept;    /* tiles of keys that are left out keep their bias */
} variant;

/* A tile of rows: its tiles of keys; per warpgroup, how many of them it skips, and whether it
 * has no rows. */
typedef struct tile {
    int keys, behind[GROUPS_MOST];
    bool idle[GROUPS_MOST];
} tile;

typedef struct barrier {
    int arrivals, left, phase;
} barrier;

typedef struct model {
    shape shape;
    variant variant;
    tile tiles[TILES_MOST];
    int tile_count;
    barrier k_full[PLACES_MOST], k_empty[PLACES_MOST], v_full[PLACES_MOST],
        v_empty[PLACES_MOST];
    barrier q_full[2 * GROUPS_MOST], q_empty[2 * GROUPS_MOST], o_full[GROUPS_MOST],
        o_empty[GROUPS_MOST], tile_full[RECORDS], tile_empty[RECORDS], turn[GROUPS_MOST],
        stored;
    barrier bias_full[GROUPS_MOST * BIAS_PLACES], bias_empty[GROUPS_MOST * BIAS_PLACES];
    bool ran_ahead;
} model;

typedef struct agent {
    ucontext_t at;
    const barrier *on; /* waits there until this phase is over */
    int phase;
    bool done;
    int group;         /* of a warpgroup */
    int n, k, v, took; /* tiles of rows and of keys so far; turns */
    int b;             /* tiles of the bias */
    void (*steps)(struct agent *);
    char stack[STACK];
} agent;

static model m;
static agent agents[AGENTS];
static agent *now;
static ucontext_t scheduler;
static uint64_t state;

static int below(int n) {
    return (int)rng_below(&state, n);
}

/* --------------------------------------------------------------------------- barriers */

static void arrive(barrier *b) {
    if (--b->left == 0) {
        b->left = b->arrivals;
        b->phase++;
    }
}

static bool is_over(const agent *a) {
    if (a->on && a->on->phase > a->phase + 1)
        m.ran_ahead = true;
    return !a->on || a->on->phase > a->phase;
}

static void wait(agent *a, const barrier *b, int phase) {
    a->on = b;
    a->phase = phase;
    swapcontext(&a->at, &scheduler);
    a->on = NULL;
}

/* The use-th use of a ring of `places` has arrived, or its place is free. */
static void wait_full(agent *a, const barrier *ring, int use, int places) {
    wait(a, &ring[use % places], use / places);
}

static void wait_empty(agent *a, const barrier *ring, int use, int places) {
    if (use >= places)
        wait(a, &ring[use % places], use / places - 1);
}

static bool owns_o(void) {
    return m.shape.layout == RICH || m.shape.layout == ONE_Q;
}

static bool two_q(void) {
    return m.shape.layout != POOR;
}

static bool carries(void) {
    return m.variant.carry && two_q() && !m.variant.split;
}

static bool brings_values(void) {
    return m.variant.paged && !m.shape.bias;
}

static int q_places(void) {
    return m.shape.layout == RICH || m.shape.layout == FAIR ? 2 : 1;
}

static int q_place(int n, int group) {
    return n % q_places() * m.shape.groups + group;
}

/* The planted fault: Q of a warpgroup without rows is freed after its last V. */
static void free_q_late(const agent *a) {
    if (owns_o() && m.variant.idle_q_late)
        arrive(&m.q_empty[q_place(a->n, a->group)]);
}

/* ------------------------------------------------------------------- loading, storing */

static void leave(agent *a, int n) {
    (void)a;
    arrive(&m.tile_empty[n % RECORDS]);
}

/* The record of a tile, or the one that says that there are no more. */
static void announce(agent *a) {
    a->n++;
    wait_empty(a, m.tile_empty, a->n, RECORDS);
    if (a->n == m.tile_count)
        arrive(&m.tile_full[a->n % RECORDS]);
    else
        arrive(&m.tile_full[a->n % RECORDS]);
}

static bool next_tile(agent *a) {
    if (a->n + 1 < m.tile_count) {
        announce(a);
        return true;
    }
    announce(a);
    return false;
}

static void load_keys(agent *a, barrier *full, const barrier *empty, int use, int places) {
    wait_empty(a, empty, use, places);
    if (m.variant.paged) {
        arrive(&full[use % places]);
        return;
    }
    arrive(&full[use % places]);
}

static void load_k(agent *a) {
    load_keys(a, m.k_full, m.k_empty, a->k, m.shape.k_places);
    a->k++;
}

static void load_v(agent *a) {
    load_keys(a, m.v_full, m.v_empty, a->v, m.shape.v_places);
    a->v++;
}

static void load_q(agent *a, int group) {
    const int which = q_place(a->n, group);
    barrier *full = &m.q_full[which];
    if (a->n >= q_places())
        wait(a, &m.q_empty[which], a->n / q_places() - 1);
    arrive(full);
}

static void produce(agent *a) {
    a->n = -1;
    while (next_tile(a)) {
        for (int j = 0; j < m.tiles[a->n].keys; j++) {
            if (j == 0)
                load_q(a, 0);
            load_k(a);
            for (int group = 1; j == 0 && group < m.shape.groups; group++)
                load_q(a, group);
            if (a->v + 1 < a->k && (two_q() || j > 0) && !brings_values())
                load_v(a);
            if (j == 0 && a->n > 0)
                leave(a, a->n - 1);
        }
        if (!two_q() && !brings_values())
            load_v(a);
    }
    if (two_q() && a->v < a->k && !brings_values())
        load_v(a);
    if (a->n > 0)
        leave(a, a->n - 1);
}

/* V if there are pages. */
static void produce_values(agent *a) {
    for (;; a->n++) {
        wait_full(a, m.tile_full, a->n, RECORDS);
        if (a->n == m.tile_count)
            break;
        for (int j = 0; j < m.tiles[a->n].keys; j++)
            load_v(a);
        leave(a, a->n);
    }
}

static void send(agent *a) {
    for (;; a->n++) {
        wait_full(a, m.tile_full, a->n, RECORDS);
        if (a->n == m.tile_count)
            break;
        for (int group = 0; group < m.shape.groups; group++) {
            wait(a, &m.o_full[group], a->n);
            if (two_q())
                arrive(&m.o_empty[group]);
            if (!owns_o())
                arrive(&m.q_empty[q_place(a->n, group)]);
        }
        arrive(&m.tile_empty[a->n % RECORDS]);
    }
    arrive(&m.stored);
}

/* The bias for one warpgroup's rows. */
static void bring_bias(agent *a) {
    for (;; a->n++) {
        wait_full(a, m.tile_full, a->n, RECORDS);
        if (a->n == m.tile_count)
            return;
        for (int j = 0; j < m.tiles[a->n].keys; j++, a->b++) {
            barrier *full = &m.bias_full[a->group * BIAS_PLACES + a->b % BIAS_PLACES];
            wait_empty(a, &m.bias_empty[a->group * BIAS_PLACES], a->b, BIAS_PLACES);
            arrive(full);
        }
        arrive(&m.tile_empty[a->n % RECORDS]);
    }
}

/* ------------------------------------------------------------------------ warpgroups */

static void sync(agent *a, barrier *b) {
    arrive(b);
    wait(a, b, a->took++);
}

static void wait_turn(agent *a) {
    if (m.variant.turns)
        sync(a, &m.turn[a->group]);
}

static void pass_turn(agent *a) {
    if (m.variant.turns)
        arrive(&m.turn[(a->group + 1) % m.shape.groups]);
}

static void wait_k(agent *a) {
    wait_full(a, m.k_full, a->k, m.shape.k_places);
}

static void release_k(agent *a) {
    arrive(&m.k_empty[a->k++ % m.shape.k_places]);
}

static void wait_v(agent *a) {
    wait_full(a, m.v_full, a->v, m.shape.v_places);
}

static void release_v(agent *a) {
    arrive(&m.v_empty[a->v++ % m.shape.v_places]);
}

static void wait_bias(agent *a) {
    if (m.shape.bias)
        wait_full(a, &m.bias_full[a->group * BIAS_PLACES], a->b, BIAS_PLACES);
}

static void release_bias(agent *a) {
    if (m.shape.bias)
        arrive(&m.bias_empty[a->group * BIAS_PLACES + a->b++ % BIAS_PLACES]);
}

/* The planted fault: the bias of a skipped tile of keys stays. */
static bool keeps_bias(void) {
    return m.variant.bias_kept;
}

static void skip_k(agent *a, int count) {
    for (; count > 0; count--) {
        wait_k(a);
        wait_turn(a);
        pass_turn(a);
        release_k(a);
        if (keeps_bias())
            continue;
        wait_bias(a);
        release_bias(a);
    }
}

static void skip_v(agent *a, int count) {
    for (; count > 0; count--) {
        wait_v(a);
        release_v(a);
    }
}

static void wait_q(agent *a) {
    wait(a, &m.q_full[q_place(a->n, a->group)], a->n / q_places());
}

static void take_q(agent *a) {
    wait_q(a);
}

static void release_q_early(agent *a) {
    if (m.shape.layout == ONE_Q)
        arrive(&m.q_empty[q_place(a->n, a->group)]);
}

static void release_q(agent *a) {
    if (m.shape.layout == RICH)
        arrive(&m.q_empty[q_place(a->n, a->group)]);
}

/* For O of the previous tile. */
static void wait_o_place(agent *a) {
    if (two_q() && !m.variant.o_not_waited)
        wait_empty(a, &m.o_empty[a->group], a->n - 1, 1);
}

/* O of the previous tile goes to the storing warp. */
static void finish_rows(agent *a) {
    arrive(&m.o_full[a->group]);
    arrive(&m.tile_empty[(a->n - 1) % RECORDS]);
}

/* After O has left, rows are computed again. */
static void redo_rows(agent *a) {
    wait(a, &m.stored, 0);
}

static bool is_idle(const agent *a) {
    return m.variant.carry && two_q() && m.tiles[a->n].idle[a->group];
}

static void pass_tile(agent *a) {
    wait_q(a);
    if (owns_o() && !m.variant.idle_q_late)
        arrive(&m.q_empty[q_place(a->n, a->group)]);
    for (int j = 0; j < m.tiles[a->n].keys; j++) {
        skip_k(a, 1);
        skip_v(a, 1);
    }
    free_q_late(a);
    if (!m.variant.o_not_waited)
        wait_empty(a, &m.o_empty[a->group], a->n, 1);
    arrive(&m.o_full[a->group]);
    arrive(&m.tile_empty[a->n % RECORDS]);
    a->n++;
}

static bool take_tile(agent *a) {
    wait_full(a, m.tile_full, a->n, RECORDS);
    return a->n < m.tile_count;
}

static bool take_own_tile(agent *a) {
    while (take_tile(a)) {
        if (!is_idle(a))
            return true;
        pass_tile(a);
    }
    return false;
}

static void accumulate_last(agent *a) {
    wait_v(a);
    release_v(a);
}

static void begin_scores(agent *a) {
    take_q(a);
    skip_k(a, m.tiles[a->n].behind[a->group]);
    wait_k(a);
    wait_turn(a);
}

static void begin_tile(agent *a) {
    begin_scores(a);
    pass_turn(a);
    release_k(a);
    release_q_early(a);
    wait_bias(a);
    release_bias(a);
    skip_v(a, m.tiles[a->n].behind[a->group]);
}

static void follow_shaped(agent *a) {
    release_bias(a);
}

static void consume(agent *a) {
    if (m.variant.turns && a->group == m.shape.groups - 1)
        arrive(&m.turn[0]);
    if (!take_own_tile(a))
        return;
    begin_tile(a);
    for (;;) {
        const tile *t = &m.tiles[a->n];
        for (int j = t->keys - 1 - t->behind[a->group]; j > 0; j--) {
            if (!m.variant.ahead)
                wait_v(a);
            wait_k(a);
            wait_turn(a);
            if (m.variant.ahead)
                wait_v(a);
            pass_turn(a);
            wait_bias(a);
            release_k(a);
            follow_shaped(a);
            release_v(a);
        }
        if (carries())
            release_q(a);
        a->n++;
        if (!carries() || !take_tile(a) || is_idle(a)) {
            accumulate_last(a);
            wait_o_place(a);
            finish_rows(a);
            if (!carries()) {
                a->n--;
                release_q(a);
                a->n++;
            }
            if (!take_own_tile(a))
                return;
            begin_tile(a);
            continue;
        }
        begin_scores(a);
        wait_v(a);
        pass_turn(a);
        release_k(a);
        release_q_early(a);
        wait_bias(a);
        release_bias(a);
        wait_o_place(a);
        release_v(a);
        skip_v(a, m.tiles[a->n].behind[a->group]);
        finish_rows(a);
    }
}

static void consume_and_redo(agent *a) {
    consume(a);
    redo_rows(a);
}

/* -------------------------------------------------------------------------- schedules */

static void run_steps(void) {
    now->steps(now);
    now->done = true;
    swapcontext(&now->at, &scheduler);
}

static void start(agent *a, void (*steps)(agent *), int group) {
    a->on = NULL;
    a->done = false;
    a->group = group;
    a->n = a->k = a->v = a->b = a->took = 0;
    a->steps = steps;
    getcontext(&a->at);
    a->at.uc_stack.ss_sp = a->stack;
    a->at.uc_stack.ss_size = sizeof a->stack;
    a->at.uc_link = NULL;
    makecontext(&a->at, run_steps, 0);
}

static void make_barriers(barrier *b, int count, int arrivals) {
    for (int i = 0; i < count; i++)
        b[i] = (barrier){arrivals, arrivals, 0};
}

static void make_model(const shape *s, const variant *v) {
    m = (model){.shape = *s, .variant = *v, .tile_count = 1 + below(TILES_MOST)};
    make_barriers(m.k_full, PLACES_MOST, 1);
    make_barriers(m.k_empty, PLACES_MOST, s->groups);
    make_barriers(m.v_full, PLACES_MOST, 1);
    make_barriers(m.v_empty, PLACES_MOST, s->groups);
    make_barriers(m.q_full, 2 * GROUPS_MOST, 1);
    make_barriers(m.q_empty, 2 * GROUPS_MOST, 1);
    make_barriers(m.o_full, GROUPS_MOST, 1);
    make_barriers(m.o_empty, GROUPS_MOST, 1);
    make_barriers(m.tile_full, RECORDS, 1);
    make_barriers(m.tile_empty, RECORDS,
                  s->groups + 2 + (s->bias ? s->groups : 0) + brings_values());
    make_barriers(m.bias_full, GROUPS_MOST * BIAS_PLACES, 1);
    make_barriers(m.bias_empty, GROUPS_MOST * BIAS_PLACES, 1);
    make_barriers(m.turn, GROUPS_MOST, 2);
    make_barriers(&m.stored, 1, 1);
    const int kind = below(4); /* skipped tiles; warpgroups without rows; both; neither */
    for (int i = 0; i < m.tile_count; i++) {
        tile *t = &m.tiles[i];
        t->keys = 1 + below(8);
        const int full = below(s->groups); /* one of them has all the work */
        const int most = t->keys < s->k_places ? t->keys : s->k_places;
        for (int group = 0; group < s->groups; group++) {
            t->behind[group] = kind & 1 && group != full ? below(most) : 0;
            t->idle[group] = kind & 2 && group != full && below(5) < 2;
        }
    }
}

/* True if every agent finished. */
static bool run_model(void) {
    const int others = m.shape.groups + 2 + (m.shape.bias ? m.shape.groups : 0);
    const int count = others + brings_values();
    start(&agents[0], produce, 0);
    start(&agents[1], send, 0);
    for (int group = 0; group < m.shape.groups; group++)
        start(&agents[2 + group], consume_and_redo, group);
    for (int group = 0; m.shape.bias && group < m.shape.groups; group++)
        start(&agents[2 + m.shape.groups + group], bring_bias, group);
    if (brings_values())
        start(&agents[others], produce_values, 0);
    for (;;) {
        agent *ready[AGENTS];
        int readies = 0, done = 0;
        for (int i = 0; i < count; i++) {
            done += agents[i].done;
            if (!agents[i].done && is_over(&agents[i]))
                ready[readies++] = &agents[i];
        }
        if (readies == 0 || m.ran_ahead)
            return done == count && !m.ran_ahead;
        now = ready[below(readies)];
        swapcontext(&scheduler, &now->at);
    }
}

/* ------------------------------------------------------------------------------ tests */

/* The rows of kernels.def, with the effect of the switches. */
static const shape shapes[] = {
    {2, 2, 3, ONE_Q, false}, {2, 4, 5, ONE_Q, false}, {2, 2, 2, RICH, false},
    {2, 2, 3, RICH, false},  {3, 4, 4, RICH, false},  {4, 4, 4, RICH, false},
    {3, 3, 3, FAIR, false},  {2, 2, 2, POOR, false},  {2, 2, 3, POOR, false},
    {2, 2, 2, ONE_Q, true},  {2, 3, 3, ONE_Q, true},  {2, 2, 2, POOR, true},
};

static int stuck_of(const shape *s, const variant *v, int tries) {
    int stuck = 0;
    for (int i = 0; i < tries; i++) {
        make_model(s, v);
        stuck += !run_model();
    }
    return stuck;
}

static void test_schedules__of_every_row__all_come_to_an_end(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int bits = 0; bits < 32; bits++) {
            const variant v = {.carry = bits & 1,
                               .ahead = bits & 2,
                               .turns = bits & 4,
                               .split = bits & 8,
                               .paged = bits & 16};
            const int stuck = stuck_of(&shapes[i], &v, 100);
            if (stuck)
                fail_msg("row %zu, switches %d: %d of 100 stuck", i, bits, stuck);
        }
}

static void test_schedules__q_of_the_idle_freed_late__noticed(void **unused) {
    (void)unused;
    const variant v = {.carry = true, .ahead = true, .turns = true, .idle_q_late = true};
    assert_true(stuck_of(&shapes[0], &v, 200) > 0);
    assert_int_equal(stuck_of(&shapes[4], &v, 200), 0); /* with two places it is not late */
}

static void test_schedules__o_not_waited_for__noticed(void **unused) {
    (void)unused;
    const variant v = {.carry = true, .ahead = true, .turns = true, .o_not_waited = true};
    assert_true(stuck_of(&shapes[6], &v, 200) > 0);
}

static void test_schedules__bias_of_what_is_left_out_kept__noticed(void **unused) {
    (void)unused;
    const variant v = {.carry = true, .ahead = true, .turns = true, .bias_kept = true};
    assert_true(stuck_of(&shapes[9], &v, 200) > 0);
}

static void test_schedules__more_left_out_than_rings_hold__noticed(void **unused) {
    (void)unused;
    const variant v = {.carry = true, .ahead = true, .turns = true};
    const shape short_ring = {2, 4, 1, RICH, false}; /* as if K had four places and V one */
    assert_true(stuck_of(&short_ring, &v, 200) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules__of_every_row__all_come_to_an_end),
        cmocka_unit_test(test_schedules__q_of_the_idle_freed_late__noticed),
        cmocka_unit_test(test_schedules__o_not_waited_for__noticed),
        cmocka_unit_test(test_schedules__bias_of_what_is_left_out_kept__noticed),
        cmocka_unit_test(test_schedules__more_left_out_than_rings_hold__noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
