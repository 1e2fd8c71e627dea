/* test_races.c: what orders two accesses on the virtual GPU, and what does not. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/small_launch.h"
#include "tests/virtual_gpu/global_memory.h"
#include "tests/virtual_gpu/virtual_gpu.h"

#define ALL_LANES 0xffffffffu

static small_launch *now;
static char memory[256];

static int begin(void **state) {
    (void)state;
    vgpu_memory_add(memory, sizeof memory);
    vgpu_memory_written(memory, sizeof memory);
    now = small_launch_begin();
    return 0;
}

static int end(void **state) {
    (void)state;
    small_launch_end(now);
    vgpu_memory_remove(memory);
    return 0;
}

static vgpu_lane *lane(int block, int number) {
    return &now->lanes[block][number];
}

/* Lane `number` of block 0 at 4 bytes of its shared memory. */
static void shared(int number, unsigned offset, races_access access) {
    races_shared(lane(0, number), &now->blocks[0], offset, 4, access, "test");
}

static void global(vgpu_lane *by, size_t offset, global_access access) {
    global_touch(by, memory + offset, 4, access, "test");
}

#define assert_races(statement) assert_check_fails(statement, CHECK_RACE, "nothing orders")

static void test_races__one_lane__ordered(void **state) {
    (void)state;
    assert_check_passes(shared(3, 0, RACES_WRITE));
    assert_check_passes(shared(3, 0, RACES_READ));
    assert_check_passes(shared(3, 0, RACES_WRITE));
    assert_check_passes(shared(3, 0, RACES_ATOMIC));
    assert_check_passes(shared(3, 0, RACES_READ));
}

static void check_pair(races_access first, races_access second) {
    const unsigned at = 16 * (3 * (unsigned)first + (unsigned)second);
    shared(0, at, first);
    if (first == second && first != RACES_WRITE)
        assert_check_passes(shared(1, at, second));
    else
        assert_races(shared(1, at, second));
}

static void test_races__two_lanes__each_pair_but_reads_and_atomics(void **state) {
    (void)state;
    for (int first = RACES_READ; first <= RACES_ATOMIC; first++)
        for (int second = RACES_READ; second <= RACES_ATOMIC; second++)
            check_pair((races_access)first, (races_access)second);
}

static void test_races__neighbouring_bytes__do_not_race(void **state) {
    (void)state;
    assert_check_passes(races_shared(lane(0, 0), &now->blocks[0], 2, 2, RACES_WRITE, "test"));
    assert_check_passes(races_shared(lane(0, 1), &now->blocks[0], 0, 2, RACES_WRITE, "test"));
    assert_check_passes(races_shared(lane(0, 1), &now->blocks[0], 4, 16, RACES_WRITE, "test"));
    assert_races(races_shared(lane(0, 2), &now->blocks[0], 18, 4, RACES_READ, "test"));
}

static void test_races__report__names_both(void **state) {
    (void)state;
    assert_check_passes(shared(7, 20, RACES_WRITE));
    assert_check_fails(
        shared(40, 20, RACES_READ), CHECK_RACE,
        "thread 40 of block (0, 0, 0) near kernel.cu:140 reads shared memory at byte 20, "
        "which thread 7 of block (0, 0, 0) wrote near kernel.cu:107");
}

static void test_races_meet__lanes_in_mask__ordered(void **state) {
    (void)state;
    shared(0, 0, RACES_WRITE);
    races_meet(&now->warps[0][0], 0x3);
    assert_check_passes(shared(1, 0, RACES_READ));
    assert_races(shared(2, 0, RACES_READ));
}

static void test_races_meet__write_after__not_ordered(void **state) {
    (void)state;
    races_meet(&now->warps[0][0], ALL_LANES);
    shared(0, 0, RACES_WRITE);
    assert_races(shared(1, 0, RACES_READ));
    races_meet(&now->warps[0][0], ALL_LANES);
    assert_check_passes(shared(1, 0, RACES_READ));
}

/* All lanes of a warp read; one arrives for them; another warp waits for that and writes. */
static void read_arrive_write(bool meets) {
    races_place done = {0};
    for (int i = 0; i < WARP_LANES; i++)
        races_shared(lane(0, i), &now->blocks[0], 0, 64, RACES_READ, "test");
    if (meets)
        races_meet(&now->warps[0][0], ALL_LANES);
    races_leave(&done, lane(0, 0));
    races_flip(&done);
    races_take(&done, lane(0, 32));
    races_forget(&done);
    races_shared(lane(0, 32), &now->blocks[0], 0, 64, RACES_WRITE, "test");
}

static void test_races__reads_of_a_warp__one_lane_arrives(void **state) {
    (void)state;
    assert_races(read_arrive_write(false));
    assert_check_passes(read_arrive_write(true));
}

static void read_backwards(void) {
    for (int i = 0; i < SMALL_LANES; i++)
        shared(i, 4 * (unsigned)(SMALL_LANES - 1 - i), RACES_READ);
}

static void test_races__barrier_of_the_block__ordered(void **state) {
    (void)state;
    races_place barrier = {0};
    for (int i = 0; i < SMALL_LANES; i++) {
        shared(i, 4 * (unsigned)i, RACES_WRITE);
        races_leave(&barrier, lane(0, i));
    }
    shared(5, 512, RACES_WRITE); /* has arrived, and goes on */
    races_flip(&barrier);
    for (int i = 0; i < SMALL_LANES; i++)
        races_take(&barrier, lane(0, i));
    assert_check_passes(read_backwards());
    assert_races(shared(6, 512, RACES_READ));
    races_forget(&barrier);
}

static void test_races__arrive_without_wait__knows_nothing(void **state) {
    (void)state;
    races_place barrier = {0};
    shared(0, 0, RACES_WRITE);
    shared(1, 4, RACES_WRITE);
    races_leave(&barrier, lane(0, 0));
    races_leave(&barrier, lane(0, 1));
    races_flip(&barrier);
    races_take(&barrier, lane(0, 1));
    assert_check_passes(shared(1, 0, RACES_READ));
    assert_races(shared(0, 4, RACES_READ));
    races_forget(&barrier);
}

static void test_races__mbarrier__phase_by_phase(void **state) {
    (void)state;
    races_place full = {0};
    shared(0, 0, RACES_WRITE);
    races_leave(&full, lane(0, 0));
    races_flip(&full);
    shared(0, 4, RACES_WRITE); /* belongs to the next phase */
    races_leave(&full, lane(0, 0));
    races_take(&full, lane(0, 33));
    assert_check_passes(shared(33, 0, RACES_READ));
    assert_races(shared(33, 4, RACES_READ));
    races_flip(&full);
    races_take(&full, lane(0, 33));
    assert_check_passes(shared(33, 4, RACES_READ));
    races_forget(&full);
}

static void test_races__clock_of_a_copy__known_to_who_waits(void **state) {
    (void)state;
    races_place full = {0};
    shared(0, 0, RACES_WRITE); /* the copy */
    races_clock *started = races_now(lane(0, 0));
    shared(0, 4, RACES_WRITE);
    races_leave_clock(&full, started);
    races_leave_clock(&full, NULL);
    races_drop(started);
    races_flip(&full);
    assert_races(shared(1, 0, RACES_READ));
    races_take(&full, lane(0, 1));
    assert_check_passes(shared(1, 0, RACES_READ));
    assert_races(shared(1, 4, RACES_READ));
    races_forget(&full);
}

static void test_races__knowledge__handed_on(void **state) {
    (void)state;
    races_place first = {0}, second = {0};
    shared(0, 0, RACES_WRITE);
    races_leave(&first, lane(0, 0));
    races_flip(&first);
    races_take(&first, lane(0, 1));
    races_leave(&second, lane(0, 1));
    races_flip(&second);
    races_take(&second, lane(0, 2));
    assert_check_passes(shared(2, 0, RACES_WRITE));
    assert_races(shared(1, 0, RACES_WRITE));
    races_forget(&first);
    races_forget(&second);
}

/* Block 0 writes the shared memory of block 1, which reads it. */
static void test_races__cluster__ordered_by_its_barrier(void **state) {
    (void)state;
    races_shared(lane(0, 0), &now->blocks[1], 0, 4, RACES_WRITE, "test");
    assert_check_fails(races_shared(lane(1, 0), &now->blocks[1], 0, 4, RACES_READ, "test"),
                       CHECK_RACE, "which thread 0 of block (0, 0, 0) wrote");
    races_place barrier = {0};
    for (int b = 0; b < SMALL_BLOCKS; b++)
        for (int i = 0; i < SMALL_LANES; i++)
            races_leave(&barrier, lane(b, i));
    races_flip(&barrier);
    for (int b = 0; b < SMALL_BLOCKS; b++)
        for (int i = 0; i < SMALL_LANES; i++)
            races_take(&barrier, lane(b, i));
    assert_check_passes(races_shared(lane(1, 63), &now->blocks[1], 0, 4, RACES_READ, "test"));
    assert_races(races_shared(lane(0, 0), &now->blocks[1], 0, 4, RACES_WRITE, "test"));
    races_forget(&barrier);
}

/* What is written is visible through an atomic, with or without fences. */
static void write_and_read(size_t data, bool before, bool after) {
    vgpu_lane *writer = lane(0, (int)data), *reader = lane(1, (int)data);
    const size_t flag = data + 4;
    global(writer, data, GLOBAL_WRITE);
    if (before)
        races_fence(writer);
    global(writer, flag, GLOBAL_ATOMIC);
    races_atomic(writer, memory + flag, 4, RACES_RELAXED);
    global(reader, flag, GLOBAL_ATOMIC);
    races_atomic(reader, memory + flag, 4, RACES_RELAXED);
    if (after)
        races_fence(reader);
    global(reader, data, GLOBAL_READ);
}

static void test_races__atomics__fences_on_both_sides_order(void **state) {
    (void)state;
    assert_races(write_and_read(0, false, false));
    assert_races(write_and_read(8, true, false));
    assert_races(write_and_read(16, false, true));
    assert_check_passes(write_and_read(24, true, true));
}

static void test_races__atomics__acquire_and_release_order(void **state) {
    (void)state;
    vgpu_lane *writer = lane(0, 0), *reader = lane(1, 0), *hasty = lane(1, 1);
    global(writer, 0, GLOBAL_WRITE);
    races_atomic(writer, memory + 4, 4, RACES_RELEASE | RACES_STORE);
    global(writer, 8, GLOBAL_WRITE);
    races_atomic(hasty, memory + 4, 4, RACES_RELAXED | RACES_LOAD);
    races_atomic(reader, memory + 4, 4, RACES_ACQUIRE | RACES_LOAD);
    assert_check_passes(global(reader, 0, GLOBAL_READ));
    assert_races(global(reader, 8, GLOBAL_READ));
    assert_races(global(hasty, 0, GLOBAL_READ));
}

static void test_races__atomics__a_chain_tells_all_a_store_ends_it(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        global(lane(i, 0), 4 * (size_t)i, GLOBAL_WRITE);
        races_fence(lane(i, 0));
        races_atomic(lane(i, 0), memory + 16, 4, RACES_RELAXED);
    }
    races_atomic(lane(0, 1), memory + 16, 4, RACES_ACQUIRE);
    assert_check_passes(global(lane(0, 1), 0, GLOBAL_READ));
    assert_check_passes(global(lane(0, 1), 4, GLOBAL_READ));
    races_atomic(lane(0, 2), memory + 16, 4, RACES_STORE);
    races_atomic(lane(0, 3), memory + 16, 4, RACES_ACQUIRE);
    assert_races(global(lane(0, 3), 0, GLOBAL_READ));
}

static void test_races__atomics__another_place_tells_nothing(void **state) {
    (void)state;
    global(lane(0, 0), 0, GLOBAL_WRITE);
    races_atomic(lane(0, 0), memory + 16, 4, RACES_RELEASE);
    races_atomic(lane(1, 0), memory + 20, 4, RACES_ACQUIRE);
    assert_races(global(lane(1, 0), 0, GLOBAL_READ));
    races_atomic(lane(1, 0), memory + 12, 8, RACES_ACQUIRE); /* both halves count */
    assert_check_passes(global(lane(1, 0), 0, GLOBAL_READ));
}

static void test_races__atomics__of_shared_memory_end_with_the_block(void **state) {
    (void)state;
    vgpu_block *block = &now->blocks[0];
    races_atomic(lane(0, 0), block->memory, 4, RACES_RELEASE);
    races_atomics_end(block);
    global(lane(0, 0), 0, GLOBAL_WRITE);
    races_atomic(lane(0, 0), block->memory, 4, RACES_RELEASE);
    races_atomics_end(block);
    races_atomic(lane(0, 1), block->memory, 4, RACES_ACQUIRE);
    assert_races(global(lane(0, 1), 0, GLOBAL_READ));
}

static void test_races__atomics__of_memory_that_is_gone_tell_nothing(void **state) {
    (void)state;
    static char flag[4];
    vgpu_memory_add(flag, sizeof flag);
    global(lane(0, 0), 0, GLOBAL_WRITE);
    races_atomic(lane(0, 0), flag, 4, RACES_RELEASE);
    vgpu_memory_remove(flag);
    vgpu_memory_add(flag, sizeof flag);
    races_atomic(lane(0, 1), flag, 4, RACES_ACQUIRE);
    vgpu_memory_remove(flag);
    assert_races(global(lane(0, 1), 0, GLOBAL_READ));
}

static void test_races__launch_before__known_or_not(void **state) {
    (void)state;
    global(lane(0, 5), 0, GLOBAL_WRITE);
    global(lane(0, 5), 4, GLOBAL_READ);
    small_launch *before = now;
    now = small_launch_begin();
    assert_check_fails(global(lane(0, 5), 0, GLOBAL_READ), CHECK_RACE, "of launch");
    assert_races(global(lane(0, 5), 4, GLOBAL_WRITE));
    races_launches_known(lane(0, 5), now->grid.number - 1);
    assert_races(global(lane(0, 5), 0, GLOBAL_READ));
    races_launches_known(lane(0, 5), now->grid.number);
    assert_check_passes(global(lane(0, 5), 0, GLOBAL_READ));
    assert_check_passes(global(lane(0, 5), 4, GLOBAL_WRITE));
    assert_races(global(lane(0, 6), 0, GLOBAL_READ));
    races_meet(&now->warps[0][0], ALL_LANES); /* who waited tells the others */
    assert_check_passes(global(lane(0, 6), 0, GLOBAL_READ));
    small_launch_end(before);
}

static void test_races__blocks_of_a_launch__not_ordered(void **state) {
    (void)state;
    races_launches_known(lane(0, 0), now->grid.number);
    races_launches_known(lane(1, 0), now->grid.number);
    global(lane(0, 0), 0, GLOBAL_WRITE);
    global(lane(0, 0), 4, GLOBAL_READ);
    assert_races(global(lane(1, 0), 0, GLOBAL_WRITE));
    assert_check_passes(global(lane(1, 0), 4, GLOBAL_READ));
    assert_races(global(lane(0, 0), 4, GLOBAL_WRITE));
}

static void test_races__host_wrote__ordered(void **state) {
    (void)state;
    global(lane(0, 0), 0, GLOBAL_WRITE);
    vgpu_memory_written(memory, 4);
    assert_check_passes(global(lane(1, 0), 0, GLOBAL_WRITE));
}

static void test_races__store_of_the_copy_engine__waited_for(void **state) {
    (void)state;
    vgpu_lane *by = lane(0, 0);
    assert_check_passes(global_touch_async(by, memory, 64, GLOBAL_WRITE, "store"));
    assert_check_fails(global(by, 60, GLOBAL_READ), CHECK_RACE, "the copy engine for thread 0");
    assert_races(global_touch_async(by, memory, 64, GLOBAL_WRITE, "store"));
    races_meet(&now->warps[0][0], ALL_LANES); /* nobody knows when */
    assert_races(global(lane(0, 1), 0, GLOBAL_WRITE));
    global_landed(by, memory, 64);
    assert_check_passes(global(by, 60, GLOBAL_READ));
    assert_races(global(lane(0, 1), 0, GLOBAL_READ));
    races_meet(&now->warps[0][0], ALL_LANES);
    assert_check_passes(global(lane(0, 1), 0, GLOBAL_READ));
}

static void test_races__store_of_the_copy_engine__over_with_its_launch(void **state) {
    (void)state;
    global_touch_async(lane(0, 0), memory, 64, GLOBAL_WRITE, "store");
    small_launch_end(now);
    now = small_launch_begin();
    assert_races(global(lane(0, 0), 0, GLOBAL_READ));
    races_launches_known(lane(0, 0), now->grid.number);
    assert_check_passes(global(lane(0, 0), 0, GLOBAL_READ));
}

static void test_races__store_of_the_copy_engine__into_what_others_touch(void **state) {
    (void)state;
    global(lane(0, 1), 0, GLOBAL_READ);
    assert_races(global_touch_async(lane(0, 0), memory, 64, GLOBAL_WRITE, "store"));
}

static void test_races__reductions_of_the_copy_engine__race_with_plain_ones(void **state) {
    (void)state;
    assert_check_passes(global_touch_async(lane(0, 0), memory, 16, GLOBAL_ATOMIC, "reduce"));
    assert_check_passes(global_touch_async(lane(1, 0), memory, 16, GLOBAL_ATOMIC, "reduce"));
    assert_check_passes(
        global_touch_async(lane(1, 0), memory + 32, 16, GLOBAL_ATOMIC, "reduce"));
    assert_races(global(lane(1, 0), 0, GLOBAL_READ));
    assert_races(global(lane(1, 0), 32, GLOBAL_READ));
    global_landed(lane(1, 0), memory + 32, 16);
    assert_check_passes(global(lane(1, 0), 32, GLOBAL_READ));
}

/* Shared memory of a finished block is reused, and its stamps are not. */
static void test_races__next_block__begins_anew(void **state) {
    (void)state;
    for (int i = 0; i < SMALL_LANES; i++) {
        shared(i, 4 * (unsigned)i, RACES_WRITE);
        shared(i, 512, RACES_READ);
    }
    small_launch_end(now);
    now = small_launch_begin();
    assert_check_passes(
        races_shared(lane(0, 0), &now->blocks[0], 0, 4 * SMALL_LANES, RACES_WRITE, "test"));
    assert_check_passes(shared(0, 512, RACES_WRITE));
}

/* Everything that makes a race, without ATTEST_VIRTUAL_RACES: 0 if nothing failed. */
static int race_in_vain(void) {
    setenv("ATTEST_VIRTUAL_RACES", "0", 1);
    begin(NULL);
    races_place place = {0};
    if (setjmp(small_failed))
        return 1;
    shared(0, 0, RACES_WRITE);
    shared(1, 0, RACES_WRITE);
    global(lane(0, 0), 0, GLOBAL_WRITE);
    global(lane(1, 0), 0, GLOBAL_WRITE);
    global_touch_async(lane(1, 0), memory, 4, GLOBAL_WRITE, "store");
    global_landed(lane(1, 0), memory, 4);
    races_leave(&place, lane(0, 0));
    races_leave_clock(&place, races_now(lane(0, 0)));
    races_flip(&place);
    races_take(&place, lane(0, 0));
    races_forget(&place);
    races_meet(&now->warps[0][0], ALL_LANES);
    races_fence(lane(0, 0));
    races_atomic(lane(0, 0), memory, 4, RACES_RELEASE);
    races_launches_known(lane(0, 0), 1);
    if (!setjmp(small_failed)) {
        global(lane(0, 0), sizeof memory, GLOBAL_READ);
        return 2; /* bounds are still checked */
    }
    end(NULL);
    return 0;
}

/* The first test: the environment is read once. */
static void test_races__switched_off__nothing_races(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0)
        _exit(race_in_vain());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define race_test(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    unsetenv("ATTEST_VIRTUAL_RACES");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_races__switched_off__nothing_races),
        race_test(test_races__one_lane__ordered),
        race_test(test_races__two_lanes__each_pair_but_reads_and_atomics),
        race_test(test_races__neighbouring_bytes__do_not_race),
        race_test(test_races__report__names_both),
        race_test(test_races_meet__lanes_in_mask__ordered),
        race_test(test_races_meet__write_after__not_ordered),
        race_test(test_races__reads_of_a_warp__one_lane_arrives),
        race_test(test_races__barrier_of_the_block__ordered),
        race_test(test_races__arrive_without_wait__knows_nothing),
        race_test(test_races__mbarrier__phase_by_phase),
        race_test(test_races__clock_of_a_copy__known_to_who_waits),
        race_test(test_races__knowledge__handed_on),
        race_test(test_races__cluster__ordered_by_its_barrier),
        race_test(test_races__atomics__fences_on_both_sides_order),
        race_test(test_races__atomics__acquire_and_release_order),
        race_test(test_races__atomics__a_chain_tells_all_a_store_ends_it),
        race_test(test_races__atomics__another_place_tells_nothing),
        race_test(test_races__atomics__of_shared_memory_end_with_the_block),
        race_test(test_races__atomics__of_memory_that_is_gone_tell_nothing),
        race_test(test_races__launch_before__known_or_not),
        race_test(test_races__blocks_of_a_launch__not_ordered),
        race_test(test_races__host_wrote__ordered),
        race_test(test_races__store_of_the_copy_engine__waited_for),
        race_test(test_races__store_of_the_copy_engine__over_with_its_launch),
        race_test(test_races__store_of_the_copy_engine__into_what_others_touch),
        race_test(test_races__reductions_of_the_copy_engine__race_with_plain_ones),
        race_test(test_races__next_block__begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
