/* lab_operation.h: one row per operation: what the laboratory must know to parse, fill, judge,
 * time and report its problems.
 *
 * The rows are lab_operation_<name>, in lab/<name>; everything else in lab/ goes through them.
 * Every operation computes rows of its outputs, indexed by batch entry, head and row. Outputs
 * whose rows are computed together, such as O and its log-sums, share a set of rows; an
 * operation may have several sets. */
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
    bool is_shape_key; /* allowed in the compact form, as in b2h8 */
} lab_modifier;

/* A buffer of a problem. */
typedef struct lab_tensor_size {
    const char *name; /* of the argument */
    bool present, output;
    bool sparse;      /* mostly zeros that are never written: not poisoned */
    bool padded;      /* an output with elements that belong to no row */
    bool integer;     /* int32 */
    int64_t shift;    /* elements from an aligned address to the first element */
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
    int set;            /* the set of rows it belongs to */
    bool absent;        /* not asked for */
    bool is_difference; /* its terms may cancel: it may be far smaller than the rounded terms */
    bool is_log; /* a logarithm: its absolute error is the relative error of its argument */
    att_dtype dtype;
    int64_t d;       /* values per row */
    int64_t step;    /* elements from one of them to the next */
    bool is_integer; /* int32, must equal the oracle's; dtype is ATT_F32, which has the same
                      * size */
} lab_output;

/* The outputs of a problem, ordered by set; all are listed, whether or not they are asked
 * for. */
typedef struct lab_outputs {
    int count;
    lab_output list[LAB_OUTPUTS_MAX];
} lab_outputs;

/* The rows of a set. */
typedef struct lab_row_set {
    int64_t batch, heads; /* entries, and heads per entry */
    double work;          /* multiply-adds of the oracle for all rows */
    int64_t fewest;       /* the least number of rows to judge, whatever the work */
} lab_row_set;

/* The usual least number of rows to judge. */
enum { LAB_FEWEST_ROWS = 32 };

/* The least work of a problem, on any device. */
typedef struct lab_work {
    double pairs; /* exponentials */
    double flops;
    double bytes; /* inputs read once, outputs written once */
} lab_work;

typedef struct lab_operation {
    const att_operation *library;
    const char *prefix; /* of its specs: "" or "merge:" */

    /* The problem as text: its own words, and those it shares with another operation, or NULL.
     * print() omits the prefix. */
    const lab_modifier *modifiers, *shared_modifiers;
    void (*init)(lab_spec *spec);
    bool (*finish)(lab_spec *spec, lab_message *why);
    void (*print)(const lab_spec *spec, char *buf, size_t n);
    json_t *(*shape)(const lab_spec *spec); /* its sizes and types */
    const void *(*problem)(const lab_spec *spec);
    att_dtype (*dtype)(const lab_spec *spec); /* of the inputs */
    bool (*is_empty)(const lab_spec *spec);   /* nothing to read and nothing to compute */
    void (*work)(lab_work *work, const lab_spec *spec);

    /* The library's functions for this operation. */
    att_status (*plan)(att_plan **out, att_context *ctx, const lab_spec *spec);
    att_status (*run)(const att_plan *plan, const lab_args *args, void *workspace,
                      void *stream);
    att_status (*explain)(att_context *ctx, const lab_spec *spec, char *buf, size_t n);
    void (*record)(lab_args *args, att_launch *launch); /* where a run writes its record */

    /* Its tensors: their number and sizes; false if one does not fit in 63 bits. Then their
     * addresses in the arguments, and their contents from a seed; elements outside the problem
     * stay unchanged. */
    bool (*sizes)(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX], int *count);
    void (*point)(lab_args *args, const lab_spec *spec, const struct lab_buffer *buffers);
    bool (*fill)(struct lab_tensors *tensors, uint64_t seed, lab_message *why);
    /* The inverse of point(): the address of each tensor that sizes() lists, NULL if it has
     * none. */
    void (*locate)(const lab_args *args, const lab_spec *spec,
                   const void *list[LAB_TENSORS_MAX]);
    /* The arguments with every address passed through `map`. */
    void (*translate)(lab_args *to, const lab_args *from,
                      void *(*map)(const void *context, const void *address),
                      const void *context);

    /* Inputs with the signs of a few rows flipped (lab/tensors/tensors_turn.h): whether they
     * can be, do it, and the output rows that certainly change. */
    bool (*turnable)(const struct lab_tensors *tensors);
    void (*turn)(struct lab_tensors *tensors, uint64_t seed);
    void (*drawn)(struct lab_tensors *tensors, uint64_t seed,
                  void (*visit)(struct lab_tensors *tensors, lab_row row, void *context),
                  void *context);

    /* Its outputs, the sets of their rows, the rows of a set in a batch entry, and the address
     * of the first value of an output's row. `args` are on the host. */
    int sets;
    bool (*is_void)(
        const lab_spec *spec); /* there is no row to compute: no kernel need be launched */
    lab_outputs (*outputs)(const lab_spec *spec);
    lab_row_set (*set)(const lab_spec *spec, int set);
    int64_t (*rows)(const lab_spec *spec, const lab_args *args, int set, int64_t b);
    void *(*answer)(const lab_spec *spec, const lab_args *args, int output, lab_row row);

    /* The right answers: the oracle in float64, and the plain reference in float32, in one of
     * `orders` orders of summation. `values` are those of the row's outputs, one after the
     * other, asked for or not; `scratch` has room for scratch() numbers. `sizes`, 0 on entry:
     * for a value that is a difference, or a product of one with exponentials, the size of the
     * terms that cancel. */
    int64_t (*scratch)(const lab_spec *spec, const lab_args *args);
    int orders;
    void (*oracle)(const lab_spec *spec, const lab_args *args, lab_row row, double *scratch,
                   double *values, double *sizes);
    void (*plain)(const lab_spec *spec, const lab_args *args, lab_row row, int order,
                  float *scratch, float *values);
} lab_operation;

#define ATT_OPERATION(name) extern const lab_operation lab_operation_##name;
#include "kernels/operations.def"

/* The number of values of a row of the set, over all its outputs. */
int64_t lab_outputs_width(const lab_outputs *outputs, int set);

/* The i-th operation, NULL past the last. Specs without a prefix are of the first. */
const lab_operation *lab_operation_at(size_t i);

#endif
