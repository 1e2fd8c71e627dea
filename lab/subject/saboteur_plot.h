/* saboteur_plot.h: a saboteur at work: what it keeps, and deeds that tell calls apart. */
#ifndef LAB_SABOTEUR_PLOT_H
#define LAB_SABOTEUR_PLOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "attention/problem.h"
#include "lab/subject/saboteur.h"
#include "lab/subject/saboteur_hands.h"

/* Answers that a saboteur keeps at most. */
enum { LAB_KEPT_MOST = 16 };

typedef struct lab_kept_answer {
    const void *q, *o;
    uint64_t inputs; /* a hash */
    int sights;      /* how often they came */
    void *copy;
} lab_kept_answer;

/* A saboteur made ready. */
typedef struct lab_plot {
    const lab_saboteur *saboteur;
    att_context *ctx;
    att_problem problem;
    att_extents bytes;
    att_plan *plan;
    lab_hands hands;
    long calls;
    lab_kept_answer kept[LAB_KEPT_MOST];
    size_t kept_count;
    void *scratch[3];      /* copies of Q, K and V, or leftovers */
    void *side;            /* a stream */
    pthread_t thread;      /* at work after the run has returned */
    uint64_t last_end;     /* of a call, on the clock */
    bool working, skipped; /* skipped: the call before this one */
    att_args args;
    void *workspace;
    att_plan *one_head;  /* the problem of one K/V head */
    uint64_t *head_hash; /* of the inputs that O has the answer to, by batch entry and head */
} lab_plot;

typedef bool lab_deed(lab_plot *plot, const att_args *args, void *workspace, void *stream);

/* The honest part of all of them; and with 7 of 10 bits of mantissa in every float16 input. */
lab_deed lab_deed_compute, lab_deed_seven_bits;

/* Deeds of saboteur_sly.c: each computes in some calls only, or better in some. */
lab_deed lab_deed_when_rested, lab_deed_when_rested_or_poisoned, lab_deed_fifth_sight,
    lab_deed_every_other, lab_deed_new_address, lab_deed_blunt_when_finished,
    lab_deed_blunt_when_hurried, lab_deed_changed_heads, lab_deed_other_rounding;

void lab_plot_forget_heads(lab_plot *plot);

#endif
