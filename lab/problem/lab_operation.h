/* lab_operation.h: one row per operation: what the laboratory must know of it to parse, fill, judge, time and report its problems.
 *
 * The rows are lab_operation_<name>, in lab/<name>; everything else in lab/ goes through them. What an operation computes is rows of
 * its outputs, counted by batch entry, head and row, whatever the operation. Outputs whose rows are computed together, as O and its
 * log-sums are, share a set of rows; an operation may have several sets. */
#ifndef LAB_OPERATION_H
#define LAB_OPERATION_H

#include <jansson.h>

#include "core/operation.h"
#include "lab/problem/lab_args.h"
#include "lab/problem/spec.h"

struct lab_tensors;
struct lab_buffer;

enum { LAB_TENSORS_MAX = 2 * ATT_MERGE_PARTS_MAX + 2, LAB_OUTPUTS_MAX = 6, LAB_SETS_MAX = 5 };

/* A word of specs: "causal", "window". */
typedef struct lab_modifier {
    const char *name; /* NULL ends the table */
    bool (*set)(lab_spec *spec, const char *name, const char *value, lab_message *why);
    bool is_shape_key; /* may stand in the compact form, as in b2h8 */
} lab_modifier;

/* A buffer of a problem. */
typedef struct lab_tensor_size {
    const char *name; /* of the argument */
    bool present, output;
    bool sparse;      /* mostly zeros that are never written: not poisoned */
    bool padded;      /* an output with elements that belong to no row */
    bool integer;     /* int32 */
    int64_t shift;    /* elements from an aligned address to its first */
    int64_t elements; /* from the first to the last that is addressed */
    double touched;   /* bytes that will be written */
    size_t element_size;
} lab_tensor_size;

/* A row of the outputs of a set. */
typedef struct lab_row {
    int64_t b, h, i;
    int set;
} lab_row;

/* One output of a problem. */
typedef struct lab_output {
    const char *name;   /* of the argument */
    int set;            /* of rows */
    bool absent;        /* not asked for */
    bool is_difference; /* its terms may cancel: it may be far smaller than what was rounded */
    bool is_log; /* a logarithm: its absolute error is the relative one of what it is of */
    att_dtype dtype;
    int64_t d;    /* values in a row */
    int64_t step; /* elements from one of them to the next */
    bool
        is_integer; /* int32, which must be what the oracle has; dtype is ATT_F32, of the same size */
} lab_output;

/* Those of a problem, in the order of their sets; they are listed, whether or not they are asked for. */
typedef struct lab_outputs {
    int count;
    lab_output list[LAB_OUTPUTS_MAX];
} lab_outputs;

/* The rows of a set. */
typedef struct lab_row_set {
    int64_t batch, heads; /* entries, and heads of each */
    double work;          /* multiply-adds of the oracle, of all rows */
    int64_t fewest;       /* rows that are judged at least, whatever the work */
} lab_row_set;

/* What of rows in general is judged at least. */
enum { LAB_FEWEST_ROWS = 32 };

/* What a problem needs at least, on any device. */
typedef struct lab_work {
    double pairs; /* exponentials */
    double flops;
    double bytes; /* inputs read once, outputs written once */
} lab_work;

typedef struct lab_operation {
    const att_operation *library;
    const char *prefix; /* of its specs: "" or "merge:" */

    /* The problem as text: its words, and those that it has of another operation, or NULL. print() leaves the prefix out. */
    const lab_modifier *modifiers, *shared_modifiers;
    void (*init)(lab_spec *spec);
    bool (*finish)(lab_spec *spec, lab_message *why);
    void (*print)(const lab_spec *spec, char *buf, size_t n);
    json_t *(*shape)(const lab_spec *spec); /* its sizes and types */
    const void *(*problem)(const lab_spec *spec);
    att_dtype (*dtype)(const lab_spec *spec); /* of the inputs */
    bool (*is_empty)(const lab_spec *spec);   /* nothing to read and nothing to compute */
    void (*work)(lab_work *work, const lab_spec *spec);

    /* The library's functions for it. */
    att_status (*plan)(att_plan **out, att_context *ctx, const lab_spec *spec);
    att_status (*run)(const att_plan *plan, const lab_args *args, void *workspace,
                      void *stream);
    att_status (*explain)(att_context *ctx, const lab_spec *spec, char *buf, size_t n);
    void (*record)(lab_args *args, att_launch *launch); /* where a run leaves its record */

    /* Its tensors: how many, sizes of each; false where one does not fit 63 bits. Then their addresses in the arguments, and
     * their contents from a seed; elements outside the problem are left as they are. */
    bool (*sizes)(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX], int *count);
    void (*point)(lab_args *args, const lab_spec *spec, const struct lab_buffer *buffers);
    bool (*fill)(struct lab_tensors *tensors, uint64_t seed, lab_message *why);
    /* The inverse of point(): the address of each tensor that sizes() lists, NULL where it has none. */
    void (*locate)(const lab_args *args, const lab_spec *spec,
                   const void *list[LAB_TENSORS_MAX]);
    /* The arguments with every address through `map`. */
    void (*translate)(lab_args *to, const lab_args *from,
                      void *(*map)(const void *context, const void *address),
                      const void *context);

    /* Inputs with the signs of a few rows turned (lab/tensors/tensors_turn.h): can they be, do it, and the rows of the output that
     * change for sure. */
    bool (*turnable)(const struct lab_tensors *tensors);
    void (*turn)(struct lab_tensors *tensors, uint64_t seed);
    void (*drawn)(struct lab_tensors *tensors, uint64_t seed,
                  void (*visit)(struct lab_tensors *tensors, lab_row row, void *context),
                  void *context);

    /* Its outputs, the sets of their rows, the rows of a set in a batch entry, and where the first value of an output's row lies. `args` are on
     * the host. */
    int sets;
    bool (*is_void)(
        const lab_spec *spec); /* there is no row to compute: then no kernel need be launched */
    lab_outputs (*outputs)(const lab_spec *spec);
    lab_row_set (*set)(const lab_spec *spec, int set);
    int64_t (*rows)(const lab_spec *spec, const lab_args *args, int set, int64_t b);
    void *(*answer)(const lab_spec *spec, const lab_args *args, int output, lab_row row);

    /* What is right: the oracle in float64, and the plain reference in float32, in one of `orders` orders of summation. `values` are those of
     * the row's outputs, one after the other, asked for or not; `scratch` has scratch() numbers. `sizes`, 0 before: of a value that is a
     * difference, or a product with exponentials of such, how large the terms are that cancel. */
    int64_t (*scratch)(const lab_spec *spec, const lab_args *args);
    int orders;
    void (*oracle)(const lab_spec *spec, const lab_args *args, lab_row row, double *scratch,
                   double *values, double *sizes);
    void (*plain)(const lab_spec *spec, const lab_args *args, lab_row row, int order,
                  float *scratch, float *values);
} lab_operation;

#define ATT_OPERATION(name) extern const lab_operation lab_operation_##name;
#include "kernels/operations.def"

/* Values of a row of the set, of all its outputs. */
int64_t lab_outputs_width(const lab_outputs *outputs, int set);

/* The i-th operation, NULL past the last. The first is the one of specs without a prefix. */
const lab_operation *lab_operation_at(size_t i);

#endif
