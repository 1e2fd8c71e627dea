/* tune_search.h: an evolutionary search over a small discrete space.
 *
 * A genome is one allele a gene. The search proposes genomes generation by generation, none twice, and is told what each
 * costs. The first generation is the seeds and then chance; later ones are children of the cheapest so far, as many as
 * a generation has: two parents by tournaments of three, each gene from either, then one or two genes changed,
 * ordered genes mostly to a neighbour; and every other child has a rare allele taken back, so that what does not help does
 * not stay. All chance is drawn from the seed: the same costs give the same search, which is how
 * a search is resumed, by telling it again what it was told. */
#ifndef LAB_TUNE_SEARCH_H
#define LAB_TUNE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/random.h"

enum { LAB_GENES_MAX = 40, LAB_POPULATION_MAX = 64 };

typedef struct lab_gene {
    int alleles;  /* 0 .. alleles - 1 */
    bool ordered; /* neighbours are alike */
    double rare;  /* chance that the first generation draws it; else it is 0. 0: always */
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
    double cost; /* INFINITY: of no use */
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

/* The next generation: at most `population` genomes, feasible and never proposed before; 0 where no more are found.
 * `seeds` are tried first in the first generation. All that was proposed must have been told. */
size_t lab_search_ask(lab_search *search, const lab_genome *seeds, size_t seed_count,
                      lab_genome *out);

/* What a proposal costs, in the order of the proposals. False where memory ran out. */
bool lab_search_tell(lab_search *search, const lab_genome *genome, double cost);

/* The cheapest so far, the earlier of equals; NULL where none is finite. */
const lab_told *lab_search_best(const lab_search *search);

#endif
