/* tune_space.c: the tiles and switches of a search, as genes. */
#include "lab/tune/tune_space.h"

#include <stdlib.h>

#include "cuda/shape.h"
#include "lab/plan/plan_tiles.h"
#include "attention/cuda/cuda_families.h"

enum { GENE_WARPS, GENE_ROWS, GENE_KEYS, GENE_STAGES, TILE_GENES };

/* The values of a gene, in order. */
typedef struct gene {
    int count, values[12];
} gene;

static const gene block_genes[TILE_GENES] = {
    [GENE_WARPS] = {4, {1, 2, 4, 8}},
    [GENE_ROWS] = {3, {16, 32, 64}}, /* per warp */
    [GENE_KEYS] = {8, {16, 32, 48, 64, 96, 128, 192, 256}},
    [GENE_STAGES] = {4, {1, 2, 3, 4}},
};

/* Four of the warps load and own no rows. */
static const gene hopper_genes[TILE_GENES] = {
    [GENE_WARPS] = {3, {12, 16, 20}},
    [GENE_ROWS] = {1, {16}},
    [GENE_KEYS] = {7, {32, 48, 64, 80, 96, 112, 128}},
    [GENE_STAGES] = {4, {2, 3, 4, 8}},
};
enum { LOADERS = 4 };

/* Warpgroups share the keys of 64 rows, or of two times 64. */
static const gene small_genes[TILE_GENES] = {
    [GENE_WARPS] = {4, {4, 8, 12, 16}},
    [GENE_ROWS] = {2, {64, 128}}, /* per block */
    [GENE_KEYS] = {7, {32, 48, 64, 80, 96, 112, 128}},
    [GENE_STAGES] = {4, {1, 2, 3, 4}},
};

static bool is_hopper(const lab_base *base) {
    return base->family == &att_family_fwd_sm90 || base->family == &att_family_fwd_sm90_small;
}

static bool is_small(const lab_base *base) {
    return base->family == &att_family_fwd_sm90_small;
}

static const gene *genes_of(const lab_base *base) {
    if (is_small(base))
        return small_genes;
    return is_hopper(base) ? hopper_genes : block_genes;
}

/* How many times the gene's rows occur in the tile. */
static int shares_of(const lab_base *base, int warps) {
    if (is_small(base))
        return 1;
    return is_hopper(base) ? warps - LOADERS : warps;
}

/* Probability that a switch is off in the first generation: most switches are on because they
 * help. */
static const double switches_off = 0.1;

lab_variant lab_tune_variant(const lab_base *base, const lab_genome *genome) {
    const uint8_t *allele = genome->allele;
    const gene *genes = genes_of(base);
    lab_variant v = {.warps = genes[GENE_WARPS].values[allele[GENE_WARPS]],
                     .n = genes[GENE_KEYS].values[allele[GENE_KEYS]],
                     .stages = genes[GENE_STAGES].values[allele[GENE_STAGES]]};
    v.m = shares_of(base, v.warps) * genes[GENE_ROWS].values[allele[GENE_ROWS]];
    for (size_t i = 0; i < base->switch_count; i++)
        if (allele[TILE_GENES + i])
            v.off |= 1u << i;
    return v;
}

/* The genome of a tile; false if the genes cannot express it. */
static bool genome_of(lab_genome *out, const lab_base *base, const lab_variant *v) {
    const gene *genes = genes_of(base);
    const int wanted[TILE_GENES] = {v->warps, v->m / shares_of(base, v->warps), v->n,
                                    v->stages};
    *out = (lab_genome){{0}};
    for (int g = 0; g < TILE_GENES; g++) {
        int at = 0;
        while (at < genes[g].count && genes[g].values[at] != wanted[g])
            at++;
        if (at == genes[g].count)
            return false;
        out->allele[g] = (uint8_t)at;
    }
    return true;
}

/* --------------------------------------------------------------------------- feasibility */

static lab_tile tile_of(const lab_base *base, const lab_variant *v) {
    return (lab_tile){.m = v->m,
                      .n = v->n,
                      .stages = v->stages,
                      .warps = v->warps,
                      .d_qk = base->d_qk,
                      .d_v = base->d_v};
}

static bool fits_blocks(const lab_tune_ground *g, const lab_variant *v) {
    lab_tile tile = tile_of(g->base, v);
    lab_work work;
    lab_work_of(&work, g->base->spec);
    lab_tile_evaluate(&tile, g->base->spec, &work, g->device);
    return tile.breaks == ATT_RESOURCE_NONE;
}

/* Registers available to a thread that owns rows. */
static int registers_of(const lab_base *base, const lab_variant *v) {
    if (!is_small(base))
        return v->m <= 128 ? 232 : v->m == 192 ? 160 : 112;
    return v->warps <= 8 ? 255 : v->warps == 12 ? 168 : 128;
}

/* S, O and P of a thread, plus what addresses and sums need. */
static bool fits_hopper(const lab_tune_ground *g, const lab_variant *v) {
    enum { BESIDE = 28 };
    const lab_base *base = g->base;
    const att_cuda_kernel row = {.source = base->source,
                                 .d_qk = base->d_qk,
                                 .d_v = base->d_v,
                                 .tile_m = v->m,
                                 .tile_n = v->n,
                                 .stages = v->stages,
                                 .warps = v->warps};
    return att_cuda_kernel_shared(&row) <= (uint32_t)g->device->limits.shared_per_block &&
           v->n / 2 + base->d_v / 2 + v->n / 4 + BESIDE <= registers_of(base, v);
}

/* Whether the source can be compiled with the tile. */
static bool fits_source(const lab_base *base, const lab_variant *v) {
    const int tile[] = {v->m, v->n, v->stages, v->warps};
    char why[128];
    return base->family->tile_fits(tile, why, sizeof why);
}

static bool is_feasible(const lab_genome *genome, const void *state) {
    const lab_tune_ground *g = state;
    const lab_variant v = lab_tune_variant(g->base, genome);
    return fits_source(g->base, &v) &&
           (is_hopper(g->base) ? fits_hopper(g, &v) : fits_blocks(g, &v));
}

void lab_tune_space(lab_space *space, const lab_tune_ground *ground) {
    const gene *genes = genes_of(ground->base);
    *space = (lab_space){.count = TILE_GENES + ground->base->switch_count,
                         .feasible = is_feasible,
                         .state = ground};
    for (size_t g = 0; g < space->count; g++)
        space->genes[g] =
            g < TILE_GENES ? (lab_gene){.alleles = genes[g].count, .ordered = true, .weight = 4}
                           : (lab_gene){.alleles = 2, .rare = 2.0 * switches_off, .weight = 1};
}

/* --------------------------------------------------------------------------------- seeds */

typedef struct predicted {
    lab_genome genome;
    double seconds;
} predicted;

static int by_seconds(const void *a, const void *b) {
    const double x = ((const predicted *)a)->seconds, y = ((const predicted *)b)->seconds;
    return (x > y) - (x < y);
}

/* Every tile of fwd_sm80 that fits, fastest first. */
enum { GRID_MOST = 4 * 3 * 8 * 4 };
static size_t list_predicted(const lab_tune_ground *ground, predicted grid[GRID_MOST]) {
    const lab_base *base = ground->base;
    size_t count = 0;
    lab_work work;
    lab_work_of(&work, base->spec);
    for (int i = 0; i < GRID_MOST; i++) {
        predicted *p = &grid[count];
        int rest = i;
        p->genome = (lab_genome){{0}};
        for (int g = 0; g < TILE_GENES; g++) {
            p->genome.allele[g] = (uint8_t)(rest % block_genes[g].count);
            rest /= block_genes[g].count;
        }
        const lab_variant v = lab_tune_variant(base, &p->genome);
        lab_tile tile = tile_of(base, &v);
        lab_tile_evaluate(&tile, base->spec, &work, ground->device);
        p->seconds = tile.seconds;
        count += is_feasible(&p->genome, ground);
    }
    qsort(grid, count, sizeof *grid, by_seconds);
    return count;
}

size_t lab_tune_seeds(const lab_tune_ground *ground, lab_genome seeds[LAB_TUNE_SEEDS]) {
    predicted grid[GRID_MOST] = {{.seconds = 0.0}};
    size_t total = genome_of(&seeds[0], ground->base, &ground->base->shipped);
    const size_t count = is_hopper(ground->base) ? 0 : list_predicted(ground, grid);
    for (size_t i = 0; i < count && total < LAB_TUNE_SEEDS; i++)
        seeds[total++] = grid[i].genome;
    return total;
}
