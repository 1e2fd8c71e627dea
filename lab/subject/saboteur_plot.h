/* saboteur_plot.h: a saboteur's state: what it keeps, what it sees of a call, and deeds that
 * tell calls apart. */
#ifndef LAB_SABOTEUR_PLOT_H
#define LAB_SABOTEUR_PLOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lab/subject/saboteur.h"
#include "lab/subject/saboteur_hands.h"

/* The most answers that a saboteur keeps. */
enum { LAB_KEPT_MOST = 16 };

/* A tensor of the call. */
typedef struct lab_plot_tensor {
    unsigned char *data;
    size_t bytes, element;
    bool integer;
} lab_plot_tensor;

typedef struct lab_kept_answer {
    const void *input, *output; /* addresses of the first input and output */
    uint64_t inputs;            /* hash */
    int sights;                 /* how often they were seen */
    void *copy[LAB_OUTPUTS_MAX];
} lab_kept_answer;

/* A prepared saboteur. */
typedef struct lab_plot {
    const lab_saboteur *saboteur;
    att_context *ctx;
    lab_spec spec;
    int size_count;
    lab_tensor_size size[LAB_TENSORS_MAX];
    att_plan *plan;
    lab_hands hands;
    long calls;
    /* Of the current call. O is the first output. */
    lab_plot_tensor input[LAB_TENSORS_MAX], output[LAB_OUTPUTS_MAX];
    int inputs, outputs;
    lab_kept_answer kept[LAB_KEPT_MOST], leftovers;
    size_t kept_count;
    void *scratch[LAB_TENSORS_MAX]; /* copies of the inputs */
    void *aside;                    /* room for an output that is not returned */
    void *side;                     /* a stream */
    pthread_t thread;               /* runs on after the call has returned */
    uint64_t last_end;              /* of a call, in clock time */
    bool working, skipped;          /* skipped: whether the previous call was */
    const void *last_input, *last_output;
    lab_args args;   /* arguments for the thread */
    void *workspace; /* workspace for the thread */
    att_plan *other; /* a second plan: with one K/V head, or with fewer experts */
    struct lab_kept_sums *kept_sums; /* of saboteur_updates.c */
    uint64_t *head_hash; /* of the inputs that O answers, per batch entry and head */
} lab_plot;

typedef bool lab_deed(lab_plot *plot, const lab_args *args, void *workspace, void *stream);

/* Record the addresses of this call's tensors. */
void lab_plot_look(lab_plot *plot, const lab_args *args);

/* Is the first element of O finite? */
bool lab_plot_is_finished(const lab_plot *plot);

uint64_t lab_plot_hash_inputs(const lab_plot *plot);

/* The slot of the answer for inputs with that hash; if they are new, a free slot or one that is
 * evicted. */
lab_kept_answer *lab_plot_place(lab_plot *plot, uint64_t inputs);

/* Copy the outputs into the answer, and back. */
bool lab_plot_keep(lab_plot *plot, lab_kept_answer *answer, void *stream);
bool lab_plot_hand_out(lab_plot *plot, lab_kept_answer *answer, void *stream);

/* Copy every input, and make arguments that point to the copies. */
bool lab_plot_copy_inputs(lab_plot *plot, lab_args *copied, const lab_args *args, void *stream);

/* The honest part of all of them; and the same with fewer mantissa bits in every input: 7 of 10
 * in float16. */
lab_deed lab_deed_compute, lab_deed_seven_bits;

/* Deeds of saboteur_sly.c: each computes only in some calls, or more precisely in some. */
lab_deed lab_deed_when_rested, lab_deed_when_rested_or_poisoned, lab_deed_fifth_sight,
    lab_deed_every_other, lab_deed_new_address, lab_deed_blunt_when_finished,
    lab_deed_blunt_when_hurried, lab_deed_changed_heads, lab_deed_other_rounding;

/* Deeds of saboteur_gradients.c, for backward only, and the problems on which they have no
 * effect. */
lab_deed lab_deed_stale_keys, lab_deed_other_head, lab_deed_without_a_tile, lab_deed_other_bits;
bool lab_idle_stale_keys(const lab_spec *spec);
bool lab_idle_other_head(const lab_spec *spec);
bool lab_idle_without_a_tile(const lab_spec *spec);

/* Deeds of saboteur_experts.c, for moe only, the changes to the planned problem, and the
 * problems on which they have no effect. */
lab_deed lab_deed_without_last_choice, lab_deed_stale_routing;
void lab_twist_skip_expert(lab_spec *spec);
void lab_twist_unnormalise(lab_spec *spec);
bool lab_idle_skip_expert(const lab_spec *spec);
bool lab_idle_unnormalise(const lab_spec *spec);
bool lab_idle_without_last_choice(const lab_spec *spec);
bool lab_idle_stale_routing(const lab_spec *spec);

/* The deed of saboteur_updates.c, for attention only, and the problems that it cannot update. */
lab_deed lab_deed_updates;
bool lab_idle_updates(const lab_spec *spec);

void lab_plot_forget_heads(lab_plot *plot);
void lab_plot_forget_sums(lab_plot *plot);

#endif
