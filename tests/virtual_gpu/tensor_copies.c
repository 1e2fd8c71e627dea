/* tensor_copies.c: copies of the copy engine through a tensor map. */
#include "tests/fake_cuda/fake_tensor_map.h"
#include "tests/virtual_gpu/bulk_copies.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"

enum { MAP_UNIT = 64, SHARED_UNIT = 128, UNIT = 16 };

static const fake_tensor_map *map_at(const ptx_frame *f, int word) {
    const uint64_t address = ptx_get(f, word);
    const char *name = f->instruction->name;
    if (address == 0 || address % MAP_UNIT != 0)
        vgpu_fail(CHECK_ALIGNMENT, "%s: the tensor map's address %p is not a multiple of %d",
                  name, ptx_pointer(address), MAP_UNIT);
    const fake_tensor_map *map = fake_map_of(ptx_pointer(address));
    if (!map || map->rank != f->instruction->number)
        vgpu_fail(CHECK_BOUNDS, "%s: there is no tensor map of %d axes", name,
                  f->instruction->number);
    return map;
}

static box_type type_of(const fake_tensor_map *map) {
    return map->type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16    ? BOX_F16
           : map->type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? BOX_BF16
                                                           : BOX_F32;
}

/* Words of a box: [map, {coordinates}] from `word` on. */
static tensor_box box_of(const ptx_frame *f, int word, unsigned shared) {
    const fake_tensor_map *map = map_at(f, word);
    tensor_box box = {.address = map->address,
                      .rank = map->rank,
                      .type = type_of(map),
                      .swizzle = (unsigned)UNIT << map->swizzle,
                      .shared = shared};
    memcpy(box.stride, map->stride, sizeof box.stride);
    for (int d = 0; d < map->rank; d++) {
        box.size[d] = map->size[d];
        box.box[d] = map->box[d];
        box.at[d] = (int)ptx_get(f, word + 1 + d);
    }
    if (shared % SHARED_UNIT != 0)
        vgpu_fail(CHECK_ALIGNMENT, "%s: shared address 0x%x is not a multiple of %d",
                  f->instruction->name, shared, SHARED_UNIT);
    return box;
}

static void check_count(const ptx_frame *f, int others) {
    if (f->instruction->number < 1 || f->instruction->number > BOX_AXES ||
        f->instruction->count != f->instruction->number + others)
        ptx_fail_operand(f, 0);
}

/* Copy to the same offset in each block that the mask names. */
static void load_for_many(ptx_frame *f, const tensor_box *box, unsigned barrier,
                          unsigned mask) {
    for (unsigned rank = 0; rank < CLUSTER_MAX; rank++) {
        if (!(mask >> rank & 1))
            continue;
        tensor_box there = *box;
        there.shared = ptx_map_address(f, box->shared, rank);
        bulk_load(f, &there, ptx_map_address(f, barrier, rank));
    }
}

/* [to], [map, {coordinates}], [barrier] (, mask of blocks). */
static void load(ptx_frame *f) {
    const bool for_many = f->instruction->option;
    check_count(f, for_many ? 4 : 3);
    const int barrier = 2 + f->instruction->number;
    const tensor_box box = box_of(f, 1, (unsigned)ptx_get(f, 0));
    if (for_many)
        load_for_many(f, &box, (unsigned)ptx_get(f, barrier),
                      (unsigned)ptx_get(f, barrier + 1) & 0xffff);
    else
        bulk_load(f, &box, (unsigned)ptx_get(f, barrier));
    lane_yield(f->lane);
}

/* [map, {coordinates}], [from] */
static void store(ptx_frame *f) {
    check_count(f, 2);
    const tensor_box box = box_of(f, 0, (unsigned)ptx_get(f, 1 + f->instruction->number));
    bulk_store(f, &box, f->instruction->option);
    lane_yield(f->lane);
}

static void prefetch(ptx_frame *f) {
    check_count(f, 1);
    map_at(f, 0);
}

static void nothing(ptx_frame *f) {
    (void)f;
}

const ptx_row ptx_tensor_copies[] = {
    {"cp.async.bulk.tensor.#d(.shared::cluster|.shared::cta).global(|.tile).mbarrier::complete_"
     "tx::bytes",
     load, 0, 4, 8},
    {"cp.async.bulk.tensor.#d.shared::cluster.global(|.tile).mbarrier::complete_tx::bytes."
     "multicast::cluster",
     load, 1, 5, 9},
    {"cp.async.bulk.tensor.#d.global.shared::cta(|.tile).bulk_group", store, 0, 3, 7},
    {"cp.reduce.async.bulk.tensor.#d.global.shared::cta.add(|.tile).bulk_group", store, 1, 3,
     7},
    {"cp.async.bulk.prefetch.tensor.#d.L2.global(|.tile)", prefetch, 0, 2, 6},
    {"prefetch(|.param|.const).tensormap", nothing, 0, 1, 1},
    {"fence.proxy.tensormap::generic(.release|.acquire)(.cta|.cluster|.gpu|.sys)", nothing, 0,
     0, 2},
    {0},
};
