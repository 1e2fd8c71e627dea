/* test_ptx.c: the virtual GPU's PTX reader, its arithmetic, and the addresses of operands and
 * boxes. One hand-made lane runs statements; a failed check returns here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/virtual_gpu/product_operands.h"
#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"
#include "tests/virtual_gpu/tensor_box.h"

enum { SHARED_BYTES = 65536 };

static jmp_buf failed;
static vgpu_check failed_check;
static char failed_text[512];

_Noreturn void __wrap_vgpu_fail(vgpu_check check, const char *format, ...);
void __wrap_lane_yield(vgpu_lane *lane);
void __wrap_lane_may_yield(vgpu_lane *lane);

_Noreturn void __wrap_vgpu_fail(vgpu_check check, const char *format, ...) {
    va_list list;
    va_start(list, format);
    failed_check = check;
    vsnprintf(failed_text, sizeof failed_text, format, list);
    va_end(list);
    longjmp(failed, 1);
}

void __wrap_lane_yield(vgpu_lane *lane) {
    (void)lane;
}

void __wrap_lane_may_yield(vgpu_lane *lane) {
    (void)lane;
}

/* ---- one lane ---- */

static vgpu_lane lane;
static vgpu_warp warp;
static vgpu_block block;
static vgpu_cluster cluster;
static vgpu_grid grid;
static vgpu_entry_point entry = {.is_watched = 1};

static int set_up(void **state) {
    (void)state;
    setenv("ATTEST_VIRTUAL_RACES", "0", 1);
    grid.entry = &entry;
    cluster = (vgpu_cluster){.grid = &grid, .blocks = &block, .count = 1, .live = 1};
    block = (vgpu_block){.cluster = &cluster,
                         .warps = &warp,
                         .lanes = &lane,
                         .warps_count = 1,
                         .lanes_count = 1,
                         .live = 1};
    warp = (vgpu_warp){.block = &block, .lanes = {&lane}, .count = 1, .live = 1};
    lane = (vgpu_lane){.warp = &warp, .block = &block, .is = {.thread = {7, 0, 0}}};
    vgpu_self = &lane.is;
    shared_make(&block, &entry, SHARED_BYTES);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    shared_free(&block);
    vgpu_self = NULL;
    return 0;
}

/* A multiple of 1024, in shared memory. */
static unsigned shared_start(void) {
    return (block.base + 1023) / 1024 * 1024;
}

static void run(const char *ptx, const char *constraints, const uint64_t *operands) {
    vgpu_asm statement = {ptx, constraints, "kernel.cu", 12, NULL};
    if (setjmp(failed))
        fail_msg("%s: %s", ptx, failed_text);
    vgpu_run_asm(&statement, operands);
}

static uint64_t bits_of(const void *place) {
    return (uint64_t)(uintptr_t)place;
}

/* The result of a statement whose operand 0 is a 32-bit result. */
static uint32_t result(const char *ptx, uint64_t a, uint64_t b, uint64_t c) {
    uint32_t out = 0xdeadbeef;
    const uint64_t operands[] = {bits_of(&out), a, b, c};
    run(ptx, "=r r r r", operands);
    return out;
}

static void expect_failure(const char *ptx, vgpu_check check, const char *words) {
    uint32_t out = 0;
    const uint64_t operands[] = {bits_of(&out), shared_start()};
    vgpu_asm statement = {ptx, "=r r", "kernel.cu", 12, NULL};
    if (!setjmp(failed)) {
        vgpu_run_asm(&statement, operands);
        fail_msg("'%s' does not fail", ptx);
    }
    if (!strstr(failed_text, words))
        fail_msg("'%s' says '%s', not '%s'", ptx, failed_text, words);
    assert_int_equal(failed_check, check);
}

/* ---- the reader ---- */

static void test_reader__what_it_does_not_know__says_what_and_where(void **state) {
    (void)state;
    static const struct {
        const char *ptx, *words;
    } wrong[] = {
        {"frobnicate.u32 %0, %1;",
         "kernel.cu:12: the virtual GPU does not know frobnicate.u32"},
        {"mov.u31 %0, %1;", "does not know mov.u31"},
        {"mov.u32 %0, %5;", "no such operand: %5"},
        {"mov.u32 %0, %%pm0;", "does not know the register %%pm0"},
        {"mov.u32 %0, there;", "no such register: there"},
        {"@p mov.u32 %0, %1;", "no such register: p"},
        {"mov.u32 %0, %1", "no ';'"},
        {"mov.u32 %0, {%1;", "a bracket is left open"},
        {"add.u32 %0, %1;", "an unknown number of operands: add.u32"},
        {"bra NOWHERE;", "no such label: NOWHERE"},
        {"{ .reg .b32 a; mov.u32 %0, %1;", "no '}'"},
        {"{ .reg .b32 a; } mov.u32 %0, a;", "no such register: a"},
        {"/* mov.u32 %0, %1;", "a comment without an end"},
        {"mov.L2::128B.u32 %0, %1;", "does not know mov.L2::128B.u32"},
        {"mov.u32 1, %1;", "cannot use its operand 0"},
        {"mov.u32 %1, %0;", "cannot use its operand 0"},
        {"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%0}, %1, %1, 1, 1, 1, 0, 0, 0, "
         "0;",
         "needs all 32 lanes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_failure(wrong[i].ptx,
                       strstr(wrong[i].ptx, "wgmma") ? CHECK_CONVERGENCE : CHECK_INSTRUCTION,
                       wrong[i].words);
}

static void test_reader__numbers__bits(void **state) {
    (void)state;
    assert_int_equal(result("mov.b32 %0, 0x1f;", 0, 0, 0), 31);
    assert_int_equal(result("mov.s32 %0, -2;", 0, 0, 0), 0xfffffffe);
    assert_int_equal(result("mov.f32 %0, 1.5;", 0, 0, 0), 0x3fc00000);
    assert_int_equal(result("mov.f32 %0, 0f3F800000;", 0, 0, 0), 0x3f800000);
    assert_int_equal(result("mov.u32 %0, 0xffffffffU;", 0, 0, 0), 0xffffffff);
    assert_int_equal(result("mov.u32 %0, %%tid.x;", 0, 0, 0), 7);
    assert_int_equal(result("mov.u32 %0, %laneid;", 0, 0, 0), 0);
}

static void test_reader__loop_with_guards__sum(void **state) {
    (void)state;
    const char *sum =
        "{\n.reg .pred more;\n.reg .b32 left, t<2>; // of the loop\n"
        "mov.u32 left, %1;\nmov.u32 %0, 0;\nmov.u32 t1, 1;\n"
        "AGAIN:\nsetp.eq.u32 more, left, 0;\n@more bra.uni OVER;\n"
        "add.u32 %0, %0, left; /* downwards */\nsub.u32 left, left, t1;\nbra AGAIN;\n"
        "OVER: @!more mov.u32 %0, 99;\n}";
    assert_int_equal(result(sum, 10, 0, 0), 55);
    assert_int_equal(result(sum, 0, 0, 0), 0);
}

static void test_reader__scopes__names_of_their_own(void **state) {
    (void)state;
    assert_int_equal(
        result("{ .reg .b32 a; mov.u32 a, 3; { .reg .b32 a; mov.u32 a, 4; } mov.u32 %0, a; }",
               0, 0, 0),
        3);
}

/* ---- instructions ---- */

static void test_integers__instructions__results(void **state) {
    (void)state;
    assert_int_equal(result("mul.hi.s32 %0, %1, %2;", 0xffffffff, 5, 0), 0xffffffff);
    assert_int_equal(result("mad.lo.u32 %0, %1, %2, %3;", 3, 4, 5), 17);
    assert_int_equal(result("shr.s32 %0, %1, %2;", 0x80000000, 31, 0), 0xffffffff);
    assert_int_equal(result("shr.u32 %0, %1, %2;", 0x80000000, 40, 0), 0);
    assert_int_equal(result("min.s32 %0, %1, %2;", 0xffffffff, 1, 0), 0xffffffff);
    assert_int_equal(result("min.u32 %0, %1, %2;", 0xffffffff, 1, 0), 1);
    assert_int_equal(result("bmsk.clamp.b32 %0, 4, %1;", 8, 0, 0), 0xff0);
    assert_int_equal(result("bmsk.clamp.b32 %0, 0, %1;", 50, 0, 0), 0xffffffff);
    assert_int_equal(result("bfe.s32 %0, %1, 4, 4;", 0xf0, 0, 0), 0xffffffff);
    assert_int_equal(result("bfe.u32 %0, %1, 4, 4;", 0xf0, 0, 0), 15);
    assert_int_equal(result("bfi.b32 %0, %1, %2, 8, 8;", 0xab, 0x12345678, 0), 0x1234ab78);
    assert_int_equal(result("lop3.b32 %0, %1, %2, %3, 0xe8;", 12, 10, 6), 14); /* majority */
    assert_int_equal(result("prmt.b32 %0, %1, %2, 0x5410;", 0x22221111, 0x44443333, 0),
                     0x33331111);
    assert_int_equal(result("shf.l.wrap.b32 %0, %1, %2, 8;", 0xaa000000, 0x12345678, 0),
                     0x345678aa);
    assert_int_equal(result("{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.u32 %0, 1, 0, p; }",
                            0xffffffff, 0, 0),
                     1);
    assert_int_equal(result("{ .reg .pred p; setp.lt.u32 p, %1, %2; selp.u32 %0, 1, 0, p; }",
                            0xffffffff, 0, 0),
                     0);
    assert_int_equal(
        result("{ .reg .b64 w; mov.b64 w, {%1, %2}; mov.b64 {_, %0}, w; }", 1, 2, 0), 2);
}

static void test_floats__instructions__results(void **state) {
    (void)state;
    const uint32_t one = att_f32_bits(1.0f), three = att_f32_bits(3.0f);
    assert_int_equal(result("fma.rn.f32 %0, %1, %2, %3;", three, three, one),
                     att_f32_bits(10.0f));
    assert_int_equal(result("ex2.approx.ftz.f32 %0, %1;", three, 0, 0), att_f32_bits(8.0f));
    assert_int_equal(result("ex2.approx.ftz.f32 %0, %1;", att_f32_bits(-130.0f), 0, 0), 0);
    assert_int_equal(result("ex2.approx.f32 %0, %1;", att_f32_bits(-130.0f), 0, 0),
                     att_f32_bits(0x1p-130f));
    assert_int_equal(result("cvt.rn.f16x2.f32 %0, %1, %2;", one, three, 0), 0x3c004200);
    assert_int_equal(result("cvt.rn.bf16x2.f32 %0, %1, %2;", one, three, 0), 0x3f804040);
    assert_int_equal(result("cvt.rn.relu.f16x2.f32 %0, %1, %2;", att_f32_bits(-1.0f), three, 0),
                     0x4200);
    assert_int_equal(result("fma.rn.f16x2 %0, %1, %2, %3;", 0x3c004200, 0x42004200, 0x3c003c00),
                     0x44004900);
    assert_int_equal(result("cvt.rzi.s32.f32 %0, %1;", att_f32_bits(-2.7f), 0, 0),
                     (uint32_t)-2);
}

static void test_memory__vectors_with_offsets__the_same_back(void **state) {
    (void)state;
    const unsigned at = shared_start();
    uint32_t out[4] = {0};
    run("st.shared.v4.b32 [%0 + 16], {1, 2, 3, 4};", "r", (const uint64_t[]){at});
    run("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4+16];", "=r =r =r =r r",
        (const uint64_t[]){bits_of(&out[0]), bits_of(&out[1]), bits_of(&out[2]),
                           bits_of(&out[3]), at});
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(out[i], i + 1);
    expect_failure("ld.shared.v2.u32 {%0, _}, [%1 + 4];", CHECK_ALIGNMENT,
                   "is not a multiple of 8");
    expect_failure("ld.shared.u32 %0, [%1 + 16777216];", CHECK_BOUNDS, "another block");
    expect_failure("ld.shared.u32 %0, [%1 + 65536];", CHECK_BOUNDS, "65536");
    expect_failure("atom.shared.add.u32 %0, [%1 + 64], 1;", CHECK_UNINITIALISED,
                   "which was never written");
}

/* ---- 16-bit types ---- */

/* The limit is half way between two neighbours: below it the lower one, above it the upper one,
 * on it the even one. */
static void check_rounding(bool is_bf16, uint16_t x) {
    const float low = small_to_float(x, is_bf16),
                high = small_to_float((uint16_t)(x + 1), is_bf16);
    const float middle = low + (high - low) / 2;
    assert_int_equal(small_from_float(low, is_bf16), x);
    assert_int_equal(small_from_float(-low, is_bf16), x | 0x8000);
    assert_int_equal(small_from_float(middle, is_bf16), x + x % 2);
    assert_int_equal(small_from_float(nextafterf(middle, low), is_bf16), x);
    assert_int_equal(small_from_float(nextafterf(middle, high), is_bf16), x + 1);
}

static void test_small_floats__every_number__rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint16_t x = 0; x < 0x7bff; x++)
        check_rounding(false, x);
    for (uint16_t x = 0x0080; x < 0x7f7f; x++)
        check_rounding(true, x);
    assert_int_equal(f16_from_float(65519.0f), 0x7bff);
    assert_int_equal(f16_from_float(65520.0f), 0x7c00);
    assert_int_equal(f16_from_float(-INFINITY), 0xfc00);
    assert_int_equal(f16_from_float(NAN), 0x7fff);
    assert_int_equal(bf16_from_float(NAN), 0x7fff);
    assert_true(isinf(f16_to_float(0x7c00)) && isnan(f16_to_float(0x7c01)));
}

/* ---- operands of products ---- */

static void put_half(unsigned address, float x) {
    const uint16_t bits = f16_from_float(x);
    memcpy(shared_at(address, 2, 2, "test"), &bits, sizeof bits);
}

static float number_of(int i, int k) {
    return (float)(i * PRODUCT_DEPTH + k);
}

static void check_operand(const product_operand *operand) {
    static float got[PRODUCT_COLUMNS_MAX / 8][PRODUCT_DEPTH][8];
    product_read(operand, false, got);
    for (int i = 0; i < operand->count; i++)
        for (int k = 0; k < PRODUCT_DEPTH; k++)
            assert_int_equal((int)got[i / 8][k][i % 8], (int)number_of(operand->first + i, k));
}

static uint64_t descriptor(unsigned start, unsigned leading, unsigned stride,
                           uint64_t swizzle) {
    return swizzle << 62 | (uint64_t)(stride >> 4) << 32 | (uint64_t)(leading >> 4) << 16 |
           (start & 0x3ffff) >> 4;
}

/* Rows of `pitch` bytes; 16-byte chunk c of row r lies at c ^ r / (128 / pitch) % (pitch /
 * 16). */
static unsigned chunk_place(unsigned row, unsigned chunk, unsigned pitch) {
    const unsigned turn = row * pitch / 128 % (pitch / 16);
    return row * pitch + (chunk ^ turn) * 16;
}

static void test_product_operands__k_major__every_swizzle(void **state) {
    (void)state;
    static const unsigned pitches[] = {0, 128, 64, 32};
    for (unsigned mode = 1; mode < 4; mode++) {
        const unsigned pitch = pitches[mode], start = shared_start();
        for (unsigned i = 0; i < 64; i++)
            for (unsigned k = 0; k < PRODUCT_DEPTH; k++)
                put_half(start + chunk_place(i, k / 8, pitch) + k % 8 * 2,
                         number_of((int)i, (int)k));
        const uint64_t d = descriptor(start, 16, 8 * pitch, mode);
        const product_operand all = product_operand_of(&block, d, false, 0, 64);
        const product_operand part = product_operand_of(&block, d, false, 32, 16);
        check_operand(&all);
        check_operand(&part);
    }
}

static void test_product_operands__mn_major__every_swizzle(void **state) {
    (void)state;
    static const unsigned pitches[] = {0, 128, 64, 32};
    for (unsigned mode = 1; mode < 4; mode++) {
        const unsigned pitch = pitches[mode], start = shared_start(),
                       panel = PRODUCT_DEPTH * pitch;
        for (unsigned i = 0; i < 128; i++)
            for (unsigned k = 0; k < PRODUCT_DEPTH; k++)
                put_half(start + i / (pitch / 2) * panel +
                             chunk_place(k, i % (pitch / 2) / 8, pitch) + i % 8 * 2,
                         number_of((int)i, (int)k));
        const product_operand all =
            product_operand_of(&block, descriptor(start, panel, 8 * pitch, mode), true, 0, 128);
        check_operand(&all);
    }
}

/* Core matrices of 128 bytes in one piece. */
static void test_product_operands__no_swizzle__both_orders(void **state) {
    (void)state;
    const unsigned start = shared_start();
    for (unsigned i = 0; i < 64; i++)
        for (unsigned k = 0; k < PRODUCT_DEPTH; k++)
            put_half(start + k / 8 * 2048 + i / 8 * 128 + i % 8 * 16 + k % 8 * 2,
                     number_of((int)i, (int)k));
    const product_operand rows =
        product_operand_of(&block, descriptor(start, 2048, 128, 0), false, 0, 64);
    check_operand(&rows);
    for (unsigned i = 0; i < 64; i++)
        for (unsigned k = 0; k < PRODUCT_DEPTH; k++)
            put_half(start + k / 8 * 2048 + i / 8 * 128 + k % 8 * 16 + i % 8 * 2,
                     number_of((int)i, (int)k));
    const product_operand columns =
        product_operand_of(&block, descriptor(start, 2048, 128, 0), true, 0, 64);
    check_operand(&columns);
}

static void test_product_operands__ranges__whole_and_in_order(void **state) {
    (void)state;
    const unsigned start = shared_start();
    int count;
    const product_operand k_major =
        product_operand_of(&block, descriptor(start, 16, 1024, 1), false, 0, 8);
    vgpu_range *ranges = product_ranges(&k_major, &count);
    assert_int_equal(count, 8); /* 32 bytes of each row; where they lie turns with the row */
    for (int i = 0; i < count; i++)
        assert_int_equal(ranges[i].bytes, 32);
    assert_int_equal(ranges[2].address, start + 256 + 32);
    free(ranges);
    const product_operand mn_major =
        product_operand_of(&block, descriptor(start, 2048, 1024, 1), true, 0, 64);
    ranges = product_ranges(&mn_major, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ranges[0].bytes, 2048);
    free(ranges);
}

/* ---- boxes ---- */

enum { WIDTH = 64, HEIGHT = 10, BOX_HEIGHT = 8 };

static tensor_box box_at(void *tensor, box_type type, int column, int row) {
    const unsigned element = type == BOX_F32 ? 4 : 2;
    return (tensor_box){.address = tensor,
                        .stride = {WIDTH * element},
                        .size = {WIDTH, HEIGHT},
                        .box = {128 / element, BOX_HEIGHT},
                        .at = {column, row},
                        .rank = 2,
                        .type = type,
                        .swizzle = 128,
                        .shared = 2048};
}

/* Rows of 128 bytes, swizzled; zeros for elements outside, on every side. */
static void test_tensor_box__partly_outside__zeros(void **state) {
    (void)state;
    static const int places[][2] = {{0, 0}, {16, 0}, {-8, -3}, {0, 7}, {-8, 9}, {64, 0}};
    uint16_t tensor[HEIGHT][WIDTH], got[BOX_HEIGHT][64];
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        tensor[i / WIDTH][i % WIDTH] = (uint16_t)(i + 1);
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const tensor_box box = box_at(tensor, BOX_F16, places[p][0], places[p][1]);
        memset(got, 0xff, sizeof got);
        tensor_box_load(&box, (char *)got);
        assert_int_equal(tensor_box_bytes(&box), sizeof got);
        for (int r = 0; r < BOX_HEIGHT; r++)
            for (int c = 0; c < 64; c++) {
                const int row = places[p][1] + r, column = places[p][0] + c;
                const bool inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH;
                assert_int_equal(got[r][(c / 8 ^ r % 8) * 8 + c % 8],
                                 inside ? tensor[row][column] : 0);
            }
    }
}

static void test_tensor_box__add_and_store__inside_alone(void **state) {
    (void)state;
    static float tensor[HEIGHT][WIDTH], data[BOX_HEIGHT][32];
    for (int i = 0; i < BOX_HEIGHT * 32; i++)
        data[i / 32][(i % 32 / 4 ^ i / 32 % 8) * 4 + i % 4] = (float)i;
    const tensor_box box = box_at(tensor, BOX_F32, 40, 4);
    tensor_box_store(&box, (const char *)data);
    tensor_box_add(&box, (const char *)data);
    for (int r = 0; r < HEIGHT; r++)
        for (int c = 0; c < WIDTH; c++) {
            const bool inside = r >= 4 && r < 4 + BOX_HEIGHT && c >= 40;
            assert_int_equal((int)tensor[r][c], inside ? 2 * ((r - 4) * 32 + c - 40) : 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader__what_it_does_not_know__says_what_and_where),
        cmocka_unit_test(test_reader__numbers__bits),
        cmocka_unit_test(test_reader__loop_with_guards__sum),
        cmocka_unit_test(test_reader__scopes__names_of_their_own),
        cmocka_unit_test(test_integers__instructions__results),
        cmocka_unit_test(test_floats__instructions__results),
        cmocka_unit_test(test_memory__vectors_with_offsets__the_same_back),
        cmocka_unit_test(test_small_floats__every_number__rounds_to_nearest_even),
        cmocka_unit_test(test_product_operands__k_major__every_swizzle),
        cmocka_unit_test(test_product_operands__mn_major__every_swizzle),
        cmocka_unit_test(test_product_operands__no_swizzle__both_orders),
        cmocka_unit_test(test_product_operands__ranges__whole_and_in_order),
        cmocka_unit_test(test_tensor_box__partly_outside__zeros),
        cmocka_unit_test(test_tensor_box__add_and_store__inside_alone),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
