/* tune_search.c: generations of genomes. */
#include "lab/tune/tune_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The draws after which a search gives up finding a feasible new genome. */
enum { ATTEMPTS = 400, TOURNAMENT = 3 };

static const double stay_near = 0.75; /* an ordered gene moves to a neighbour with this
                                       * probability */

void lab_search_start(lab_search *s, const lab_space *space, size_t population, uint64_t seed) {
    *s = (lab_search){.space = space, .population = population};
    lab_random_seed(&s->random, seed, 0);
}

void lab_search_free(lab_search *s) {
    free(s->told);
    s->told = NULL;
    s->told_count = s->told_room = 0;
}

static bool same(const lab_genome *a, const lab_genome *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_new(const lab_search *s, const lab_genome *genome, const lab_genome *proposed,
                   size_t count) {
    for (size_t i = 0; i < s->told_count; i++)
        if (same(&s->told[i].genome, genome))
            return false;
    for (size_t i = 0; i < count; i++)
        if (same(&proposed[i], genome))
            return false;
    return true;
}

static uint8_t draw(lab_search *s, int bound) {
    return (uint8_t)lab_random_below(&s->random, bound);
}

static lab_genome at_random(lab_search *s) {
    lab_genome genome = {{0}};
    for (size_t i = 0; i < s->space->count; i++) {
        const lab_gene *gene = &s->space->genes[i];
        if (gene->rare == 0.0 || lab_random_unit(&s->random) < gene->rare)
            genome.allele[i] = draw(s, gene->alleles);
    }
    return genome;
}

/* ------------------------------------------------------------------------------ children */

/* The parents: the cheapest so far, as many as a population, sorted. */
static size_t list_parents(const lab_search *s, const lab_told **parents) {
    size_t count = 0;
    for (size_t next = 0; next < s->told_count; next++) {
        const lab_told *told = &s->told[next];
        if (!isfinite(told->cost))
            continue;
        size_t at = count; /* of equals the earlier comes first */
        while (at > 0 && told->cost < parents[at - 1]->cost)
            at--;
        if (at == s->population)
            continue;
        count += count < s->population;
        for (size_t i = count - 1; i > at; i--)
            parents[i] = parents[i - 1];
        parents[at] = told;
    }
    return count;
}

/* The best of a few random ones; they are sorted. */
static const lab_genome *choose(lab_search *s, const lab_told *const *parents, size_t count) {
    size_t best = count - 1;
    for (int i = 0; i < TOURNAMENT; i++) {
        const size_t drawn = (size_t)lab_random_below(&s->random, (int64_t)count);
        best = drawn < best ? drawn : best;
    }
    return &parents[best]->genome;
}

/* Draw a gene by weight. */
static size_t draw_gene(lab_search *s) {
    int64_t sum = 0;
    for (size_t i = 0; i < s->space->count; i++)
        sum += s->space->genes[i].weight;
    int64_t left = lab_random_below(&s->random, sum);
    size_t at = 0;
    while ((left -= s->space->genes[at].weight) >= 0)
        at++;
    return at;
}

/* Reset one of the rare alleles to 0, if there is one. */
static void take_back(lab_search *s, lab_genome *genome) {
    size_t rare[LAB_GENES_MAX], count = 0;
    for (size_t i = 0; i < s->space->count; i++)
        if (s->space->genes[i].rare > 0.0 && genome->allele[i])
            rare[count++] = i;
    if (count > 0)
        genome->allele[rare[lab_random_below(&s->random, (int64_t)count)]] = 0;
}

static void change(lab_search *s, lab_genome *genome) {
    const size_t at = draw_gene(s);
    const lab_gene *gene = &s->space->genes[at];
    uint8_t *allele = &genome->allele[at];
    if (gene->alleles < 2)
        return;
    if (gene->ordered && lab_random_unit(&s->random) < stay_near) {
        const bool up = lab_random_below(&s->random, 2) == 1;
        if (up ? *allele + 1 < gene->alleles : *allele > 0) {
            *allele = (uint8_t)(up ? *allele + 1 : *allele - 1);
            return;
        }
    }
    const uint8_t other = draw(s, gene->alleles - 1);
    *allele = (uint8_t)(other >= *allele ? other + 1 : other);
}

static lab_genome child_of(lab_search *s, const lab_told *const *parents, size_t count) {
    const lab_genome *a = choose(s, parents, count), *b = choose(s, parents, count);
    lab_genome child = {{0}};
    for (size_t i = 0; i < s->space->count; i++)
        child.allele[i] = (lab_random_below(&s->random, 2) ? a : b)->allele[i];
    if (lab_random_below(&s->random, 2))
        take_back(s, &child);
    change(s, &child);
    if (lab_random_below(&s->random, 2))
        change(s, &child);
    return child;
}

/* --------------------------------------------------------------------------- generations */

static void propose(const lab_search *s, const lab_genome *genome, lab_genome *out,
                    size_t *count) {
    if (*count < s->population && s->space->feasible(genome, s->space->state) &&
        is_new(s, genome, out, *count))
        out[(*count)++] = *genome;
}

size_t lab_search_ask(lab_search *s, const lab_genome *seeds, size_t seed_count,
                      lab_genome *out) {
    const lab_told *parents[LAB_POPULATION_MAX] = {NULL};
    const size_t parent_count = list_parents(s, parents);
    size_t count = 0;
    for (size_t i = 0; s->generation == 0 && i < seed_count; i++)
        propose(s, &seeds[i], out, &count);
    for (int attempt = 0; attempt < ATTEMPTS && count < s->population; attempt++) {
        /* Late in a small space all children are known: random genomes find the rest. */
        const bool wild = parent_count == 0 || attempt >= ATTEMPTS / 2;
        const lab_genome genome = wild ? at_random(s) : child_of(s, parents, parent_count);
        propose(s, &genome, out, &count);
    }
    s->generation += count > 0;
    return count;
}

bool lab_search_tell(lab_search *s, const lab_genome *genome, double cost) {
    if (s->told_count == s->told_room) {
        const size_t room = s->told_room ? 2 * s->told_room : 64;
        lab_told *grown = realloc(s->told, room * sizeof *grown);
        if (!grown)
            return false;
        s->told = grown;
        s->told_room = room;
    }
    s->told[s->told_count++] = (lab_told){.genome = *genome, .cost = cost};
    return true;
}

const lab_told *lab_search_best(const lab_search *s) {
    const lab_told *best = NULL;
    for (size_t i = 0; i < s->told_count; i++)
        if (isfinite(s->told[i].cost) && (!best || s->told[i].cost < best->cost))
            best = &s->told[i];
    return best;
}
