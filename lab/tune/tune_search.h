/* tune_search.h: an evolutionary search over a small discrete space.
 *
 * A genome has one allele per gene. The search proposes genomes generation by generation,
 * none twice, and is told the cost of each. The first generation is the seeds and then random
 * genomes. Later ones are children of the cheapest so far, of which as many as a generation
 * has are kept: two parents chosen by tournaments of three, each gene from either, then one
 * or two genes changed, ordered genes mostly to a neighbour. Every other child has a rare
 * allele reset, so that changes that do not help do not stay. All randomness comes from the
 * seed: the same costs give the same search. A search is resumed by telling it the recorded
 * costs again. */
#ifndef LAB_TUNE_SEARCH_H
#define LAB_TUNE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/random.h"

enum { LAB_GENES_MAX = 40, LAB_POPULATION_MAX = 64 };

typedef struct lab_gene {
    int alleles;  /* 0 .. alleles - 1 */
    bool ordered; /* adjacent alleles are similar */
    double rare;  /* probability that the first generation draws it, otherwise it is 0; 0:
                   * always */
    int weight;   /* how often it changes, at least 1 */
} lab_gene;

typedef struct lab_genome {
    uint8_t allele[LAB_GENES_MAX]; /* zeros past the last gene */
} lab_genome;

typedef struct lab_space {
    lab_gene genes[LAB_GENES_MAX];
    size_t count;
    bool (*feasible)(const lab_genome *genome, const void *state);
    const void *state;
} lab_space;

typedef struct lab_told {
    lab_genome genome;
    double cost; /* INFINITY: unusable */
} lab_told;

typedef struct lab_search {
    const lab_space *space;
    lab_random random;
    size_t population;
    lab_told *told; /* everything, in the order of the proposals */
    size_t told_count, told_room;
    size_t generation; /* of the latest proposals, from 1 */
} lab_search;

/* `space` must outlive the search; 4 <= population <= LAB_POPULATION_MAX. */
void lab_search_start(lab_search *search, const lab_space *space, size_t population,
                      uint64_t seed);
void lab_search_free(lab_search *search);

/* The next generation: at most `population` feasible genomes that were never proposed before; 0
 * if no more are found. `seeds` are tried first in the first generation. The costs of all
 * earlier proposals must have been told. */
size_t lab_search_ask(lab_search *search, const lab_genome *seeds, size_t seed_count,
                      lab_genome *out);

/* Report the cost of a proposal, in the order of the proposals. False if memory ran out. */
bool lab_search_tell(lab_search *search, const lab_genome *genome, double cost);

/* The cheapest so far, the earlier one if equal; NULL if none is finite. */
const lab_told *lab_search_best(const lab_search *search);

#endif
