/* tune_space.h: the tiles and switches of a search, as genes. */
#ifndef LAB_TUNE_SPACE_H
#define LAB_TUNE_SPACE_H

#include "lab/plan/plan_device.h"
#include "lab/tune/tune_search.h"
#include "lab/tune/variant.h"

/* The base of the genes, and the GPU that a tile must fit. */
typedef struct lab_tune_ground {
    const lab_base *base;
    const lab_device *device;
} lab_tune_ground;

/* Warps, rows, keys and stages for the family of the base, then its switches. `ground` must
 * outlive the space. */
void lab_tune_space(lab_space *space, const lab_tune_ground *ground);

/* A genome as a variant. */
lab_variant lab_tune_variant(const lab_base *base, const lab_genome *genome);

/* Genomes to start with: that of the shipped row, if the genes can express it, and those that
 * the planner predicts to be fastest, if it models the family. At most LAB_TUNE_SEEDS. */
enum { LAB_TUNE_SEEDS = 6 };
size_t lab_tune_seeds(const lab_tune_ground *ground, lab_genome seeds[LAB_TUNE_SEEDS]);

#endif
