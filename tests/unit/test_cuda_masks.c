/* test_cuda_masks.c: how fwd_mask is planned before fwd_sm90, and the parameters of both. On a
 * fake GPU; no kernel of the library is needed. */
#include <stdlib.h>
#include <string.h>

#include "attention/cuda/mask_lists.h"
#include "cuda/embed.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"
#include "tests/support/gpu_plan.h"

/* The library's own tables are not used: these are the sources. */
static const char source[] = "the source of a kernel";
const att_embedded_code att_embedded_codes[] = {{0, 0, 0, 0, 0}};
const att_embedded_text att_embedded_texts[] = {
    {"kernels/fwd_sm90.cu", source, sizeof source - 1},
    {"kernels/fwd_mask.cu", source, sizeof source - 1},
    {0, 0, 0}};

enum { ROWS = 128, KEYS = 128, WARPS = ROWS / 16 };

static fake_cuda *fake;
static att_fwd_mask_params reader; /* of the last launch of mask_sm90 */
static unsigned reader_grid[2], reader_threads;
static att_fwd_sm90_feature_params attention; /* of the kernel after it */
static char order[8]; /* of the launches: m reads the mask, a is the other */

static void record(const char *kernel, const CUlaunchConfig *config, const void *params,
                   size_t bytes) {
    const bool reads = strncmp(kernel, "mask_", 5) == 0;
    assert_int_equal(bytes, reads ? sizeof reader : sizeof attention);
    memcpy(reads ? (void *)&reader : (void *)&attention, params, bytes);
    if (reads) {
        reader_grid[0] = config->gridDimX;
        reader_grid[1] = config->gridDimY;
        reader_threads = config->blockDimX;
    }
    const size_t n = strlen(order);
    assert_true(n < sizeof order - 1);
    order[n] = reads ? 'm' : 'a';
    order[n + 1] = '\0';
}

static const att_kernel_row *row_of_masks(void) {
    return gpu_row_named("fwd_sm90_bf16_d128_mask_m128n128s2");
}

/* B = 3, H = 8, 500 rows and 1000 keys; a separate mask for every row of every head. */
static att_problem masked(void) {
    att_problem p;
    att_problem_init(&p, 3, 8, 2, 500, 1000, 128, 128, ATT_BF16);
    p.features = ATT_BIAS;
    p.bias_dtype = ATT_BOOL8;
    p.bias = (att_strides){8 * 500 * 1000, 500 * 1000, 1000, 1};
    return p;
}

static gpu_plan plan_of(const att_problem *p) {
    gpu_plan plan;
    assert_ok(gpu_plan_cut(&plan, 0, row_of_masks(), p));
    return plan;
}

static void run(const gpu_plan *plan, void *workspace, const void *mask) {
    const att_args args = {.size = sizeof args, .bias = mask};
    order[0] = '\0';
    fake->run = record;
    assert_ok(gpu_plan_run(plan, &args, workspace, NULL));
    fake->run = NULL;
}

static void assert_lists(const att_problem *p, int batches, int heads, int row_blocks) {
    const gpu_plan plan = plan_of(p);
    const att_fwd_mask *m = &plan.tiling.mask.lists;
    assert_int_equal(m->batches, batches);
    assert_int_equal(m->heads, heads);
    assert_int_equal(m->row_blocks, row_blocks);
    assert_int_equal(plan.tiling.mask.shape.grid[0], batches * heads * row_blocks);
}

static void test_lists__what_is_shared__is_read_once(void **state) {
    (void)state;
    att_problem p = masked();
    assert_lists(&p, 3, 8, 4);
    p.bias.head = 0;
    assert_lists(&p, 3, 1, 4);
    p.bias.batch = 0;
    assert_lists(&p, 1, 1, 4);
    p.bias.row = 0; /* every row sees the same keys */
    assert_lists(&p, 1, 1, 1);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    assert_lists(&p, 1, 1, 4);
    p.causal = ATT_CAUSAL_NONE;
    p.features |= ATT_LENS_K; /* entries differ by their lengths */
    assert_lists(&p, 3, 1, 1);
}

static void test_lists__heads_of_a_group_in_a_tile__a_list_a_group(void **state) {
    (void)state;
    att_problem p = masked();
    p.seq_q = 100;
    assert_lists(&p, 3, 2, 4); /* 4 heads of 100 rows */
    assert_int_equal(plan_of(&p).tiling.hopper.pack, 2);
}

static void test_workspace__lists_behind_the_rest__apart_and_aligned(void **state) {
    (void)state;
    const att_problem p = masked();
    const gpu_plan plan = plan_of(&p);
    const att_cuda_mask_plan *m = &plan.tiling.mask;
    const size_t lists = 3 * 8 * 4, key_tiles = (1000 + KEYS - 1) / KEYS;
    assert_int_equal(m->lists.key_tiles, key_tiles);
    assert_true(m->counts_at >= 256 + (size_t)plan.tiling.hopper.tiles * WARPS * 8);
    assert_true(m->tiles_at >= m->counts_at + lists * sizeof(int));
    assert_true(m->bits_at >= m->tiles_at + lists * key_tiles * sizeof(att_fwd_mask_tile));
    assert_true(plan.workspace >=
                m->bits_at + lists * key_tiles * WARPS * 32 * sizeof(att_fwd_mask_bits));
    assert_int_equal((m->counts_at | m->tiles_at | m->bits_at | plan.workspace) % 256, 0);
}

static void test_run__two_launches__that_agree(void **state) {
    (void)state;
    const att_problem p = masked();
    const gpu_plan plan = plan_of(&p);
    char *workspace = (char *)0x10000000;
    run(&plan, workspace, (void *)0x20000000);
    assert_string_equal(order, "ma"); /* no third one sets the counter to 0 */
    assert_int_equal(reader_grid[0], 3 * 8 * 4);
    assert_int_equal(reader_grid[1], ATT_MASK_CLUSTER);
    assert_int_equal(plan.tiling.mask.shape.cluster, ATT_MASK_CLUSTER);
    assert_true(plan.tiling.mask.shape.overlap);
    assert_int_equal(reader_threads, 2 * ROWS);
    assert_int_equal(reader.tile_m, ROWS);
    assert_int_equal(reader.tile_n, KEYS);
    assert_int_equal(reader.top_rows, 4 * ROWS - 500);
    assert_int_equal(reader.top_rows, attention.plain.top_rows);
    assert_int_equal(reader.pack, attention.plain.pack);
    assert_ptr_equal(reader.fwd.bias, (void *)0x20000000);
    assert_ptr_equal(reader.next_tile, workspace);
    assert_ptr_equal(attention.plain.next_tile, workspace);
    assert_memory_equal(&reader.mask, &attention.mask, sizeof reader.mask);
    assert_ptr_equal(reader.mask.bits, workspace + plan.tiling.mask.bits_at);
}

static void test_run__width__by_address_and_strides(void **state) {
    (void)state;
    static const struct {
        uintptr_t at;
        att_strides bias;
        int width;
    } cases[] = {
        {0x2000, {8000000, 1000000, 2000, 1}, 16}, {0x2004, {8000000, 1000000, 2000, 1}, 4},
        {0x2001, {8000000, 1000000, 2000, 1}, 4},  {0x2000, {8000000, 1000000, 1004, 1}, 4},
        {0x2000, {8000001, 1000000, 2000, 1}, 4},  {0x2000, {8000000, 1000000, 2000, 2}, 1},
        {0x2000, {8000000, 0, 0, 1}, 16},          {0x2000, {8000000, 0, 0, 0}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        att_problem p = masked();
        p.bias = cases[i].bias;
        const gpu_plan plan = plan_of(&p);
        run(&plan, (void *)0x10000000, (void *)cases[i].at);
        assert_int_equal(reader.width, cases[i].width);
    }
}

static void test_refusal__bits_past_64_bits__names_the_mask(void **state) {
    (void)state;
    att_problem p = masked();
    gpu_plan plan;
    p.batch = 1 << 20;
    p.heads_q = p.heads_kv = 1000;
    p.seq_q = 192;
    p.seq_k = INT32_MAX - 65536;
    assert_fails(gpu_plan_cut(&plan, 0, row_of_masks(), &p), ATT_E_UNSUPPORTED, "bias", "2^62");
}

static void test_reader__of_the_registry__by_its_role(void **state) {
    (void)state;
    assert_non_null(att_cuda_mask_reader(true));
    assert_string_equal(att_cuda_mask_reader(false)->id, "mask_sm90");
}

static int set_up(void **state) {
    (void)state;
    fake = use_fake_cuda();
    use_fake_nvrtc();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists__what_is_shared__is_read_once),
        cmocka_unit_test(test_lists__heads_of_a_group_in_a_tile__a_list_a_group),
        cmocka_unit_test(test_workspace__lists_behind_the_rest__apart_and_aligned),
        cmocka_unit_test(test_run__two_launches__that_agree),
        cmocka_unit_test(test_run__width__by_address_and_strides),
        cmocka_unit_test(test_refusal__bits_past_64_bits__names_the_mask),
        cmocka_unit_test(test_reader__of_the_registry__by_its_role),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
