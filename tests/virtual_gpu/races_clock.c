/* races_clock.c: joins clocks where lanes synchronise. Lanes of a warp or a block mostly know
 * the same, so that most joins are found by comparing pointers: recent joins are cached. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/races_clock.h"

#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/races_memory.h"

static races_times *times_make(uint32_t block, uint32_t launch, int count) {
    races_times *times = allocate(sizeof *times + (size_t)count * sizeof times->at[0]);
    times->references = 1;
    times->count = count;
    times->block = block;
    times->launch = launch;
    return times;
}

static races_times *times_share(races_times *times) {
    times->references++;
    return times;
}

static void times_drop(races_times *times) {
    if (--times->references == 0)
        free(times);
}

static races_clock *clock_make(uint32_t launches, int room) {
    races_clock *clock = allocate(sizeof *clock + (size_t)room * sizeof clock->of[0]);
    clock->references = 1;
    clock->count = 0;
    clock->launches = launches;
    return clock;
}

races_clock *clock_of_block(uint32_t block, uint32_t launch, int lanes) {
    races_clock *clock = clock_make(0, 1);
    clock->of[0] = times_make(block, launch, lanes);
    clock->count = 1;
    memset(clock->of[0]->at, 0, (size_t)lanes * sizeof clock->of[0]->at[0]);
    return clock;
}

races_clock *clock_of_launches(uint32_t launches) {
    return clock_make(launches, 0);
}

races_clock *races_share(races_clock *clock) {
    if (clock)
        clock->references++;
    return clock;
}

void races_drop(races_clock *clock) {
    if (!clock || --clock->references > 0)
        return;
    for (int i = 0; i < clock->count; i++)
        times_drop(clock->of[i]);
    free(clock);
}

races_times *clock_times(const races_clock *clock, uint32_t block) {
    int low = 0, high = clock->count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (clock->of[middle]->block < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low < clock->count && clock->of[low]->block == block ? clock->of[low] : NULL;
}

/* The later of each. Returns bits: 1: later than a somewhere, 2: later than b. */
static unsigned later_of(uint32_t *restrict out, const uint32_t *restrict a,
                         const uint32_t *restrict b, int count) {
    uint32_t than_a = 0, than_b = 0;
    for (int i = 0; i < count; i++) {
        const uint32_t later = a[i] > b[i] ? a[i] : b[i];
        than_a |= later ^ a[i];
        than_b |= later ^ b[i];
        out[i] = later;
    }
    return (than_a ? 1u : 0u) | (than_b ? 2u : 0u);
}

static races_times *times_joined(races_times *a, races_times *b) {
    if (a == b)
        return times_share(a);
    races_times *out = times_make(a->block, a->launch, a->count);
    const unsigned later = later_of(out->at, a->at, b->at, a->count);
    if (later == 3)
        return out;
    times_drop(out);
    return times_share(later & 1 ? b : a);
}

/* Takes the reference. Launches that are known completely are left out. */
static void clock_append(races_clock *clock, races_times *times) {
    if (times->launch < clock->launches)
        times_drop(times);
    else
        clock->of[clock->count++] = times;
}

static bool clock_equals(const races_clock *a, const races_clock *b) {
    return a->launches == b->launches && a->count == b->count &&
           !memcmp(a->of, b->of, (size_t)a->count * sizeof a->of[0]);
}

static races_clock *join(races_clock *a, races_clock *b) {
    races_clock *out =
        clock_make(a->launches > b->launches ? a->launches : b->launches, a->count + b->count);
    int i = 0, j = 0;
    while (i < a->count || j < b->count) {
        if (j == b->count || (i < a->count && a->of[i]->block < b->of[j]->block))
            clock_append(out, times_share(a->of[i++]));
        else if (i == a->count || b->of[j]->block < a->of[i]->block)
            clock_append(out, times_share(b->of[j++]));
        else
            clock_append(out, times_joined(a->of[i++], b->of[j++]));
    }
    races_clock *same = clock_equals(out, a) ? a : clock_equals(out, b) ? b : NULL;
    if (!same)
        return out;
    races_drop(out);
    return races_share(same);
}

/* Recent joins. References are held, so that no other clock has the same address. */
enum { MEMO = 64 };
static struct { races_clock *a, *b, *joined; } memo[MEMO];

races_clock *clock_joined(races_clock *a, races_clock *b) {
    if (a == b)
        return races_share(a);
    const size_t at = ((uintptr_t)a / 16 * 31 + (uintptr_t)b / 16) % MEMO;
    if (memo[at].a != a || memo[at].b != b) {
        races_clock *joined = join(a, b);
        races_drop(memo[at].a);
        races_drop(memo[at].b);
        races_drop(memo[at].joined);
        memo[at].a = races_share(a);
        memo[at].b = races_share(b);
        memo[at].joined = joined;
    }
    return races_share(memo[at].joined);
}

/* Both know about the same single block, and nobody else refers to `clock`. */
static bool add_in_place(races_clock *clock, const races_clock *other) {
    if (clock->references != 1 || clock->count != 1 || other->count != 1 ||
        clock->of[0]->references != 1 || clock->of[0]->block != other->of[0]->block ||
        clock->launches < other->launches)
        return false;
    uint32_t *to = clock->of[0]->at;
    const uint32_t *restrict from = other->of[0]->at;
    for (int i = 0; i < clock->of[0]->count; i++)
        to[i] = to[i] > from[i] ? to[i] : from[i];
    return true;
}

void clock_add(races_clock **clock, races_clock *other) {
    if (!*clock) {
        *clock = races_share(other);
        return;
    }
    if (*clock == other || add_in_place(*clock, other))
        return;
    races_clock *joined = clock_joined(*clock, other);
    races_drop(*clock);
    *clock = joined;
}

static races_clock *clock_copied(const races_clock *clock) {
    races_clock *copy = clock_make(clock->launches, clock->count);
    copy->count = clock->count;
    for (int i = 0; i < clock->count; i++)
        copy->of[i] = times_share(clock->of[i]);
    return copy;
}

static races_times *times_copied(const races_times *times) {
    races_times *copy = times_make(times->block, times->launch, times->count);
    memcpy(copy->at, times->at, (size_t)times->count * sizeof times->at[0]);
    return copy;
}

void clock_set_time(races_clock **clock, uint32_t block, int lane, uint32_t time) {
    if ((*clock)->references > 1) {
        races_clock *copy = clock_copied(*clock);
        races_drop(*clock);
        *clock = copy;
    }
    int i = 0;
    while ((*clock)->of[i]->block != block)
        i++;
    races_times **times = &(*clock)->of[i];
    if ((*times)->references > 1) {
        races_times *copy = times_copied(*times);
        times_drop(*times);
        *times = copy;
    }
    (*times)->at[lane] = time;
}
