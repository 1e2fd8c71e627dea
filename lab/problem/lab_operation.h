/* lab_operation.h: one row per operation: what the laboratory must know of it to parse, fill, judge, time and report its problems.
 *
 * The rows are lab_operation_<name>, in lab/<name>; everything else in lab/ goes through them. Rows of an output are counted by
 * batch entry, head and row, whatever the operation. */
#ifndef LAB_OPERATION_H
#define LAB_OPERATION_H

#include <jansson.h>

#include "core/operation.h"
#include "lab/problem/lab_args.h"
#include "lab/problem/spec.h"

struct lab_tensors;
struct lab_buffer;

enum { LAB_TENSORS_MAX = 2 * ATT_MERGE_PARTS_MAX + 2 };

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
    int64_t shift;    /* elements from an aligned address to its first */
    int64_t elements; /* from the first to the last that is addressed */
    double touched;   /* bytes that will be written */
    size_t element_size;
} lab_tensor_size;

/* A row of the output. */
typedef struct lab_row {
    int64_t b, h, i;
} lab_row;

/* Where a row's answers lie. */
typedef struct lab_answer {
    void *o;
    att_dtype dtype;
    int64_t d;
    float *lse; /* NULL: not asked for */
} lab_answer;

/* What the output of a problem is. */
typedef struct lab_output {
    att_dtype dtype;
    int64_t d;
    bool lse;  /* log-sums are asked for */
    bool none; /* there is no row to compute: then no kernel need be launched */
} lab_output;

/* What a problem needs at least, on any device. */
typedef struct lab_work {
    double pairs; /* exponentials */
    double flops;
    double bytes; /* inputs read once, outputs written once */
} lab_work;

typedef struct lab_operation {
    const att_operation *library;
    const char *prefix; /* of its specs: "" or "merge:" */

    /* The problem as text. print() leaves the prefix out. */
    const lab_modifier *modifiers;
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
    void (*fill)(struct lab_tensors *tensors, uint64_t seed);
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

    /* The rows of its output: batch entries, heads, rows of an entry; where one lies. `row` of arguments on the host. */
    int64_t (*batch)(const lab_spec *spec);
    int64_t (*heads)(const lab_spec *spec);
    int64_t (*rows)(const lab_spec *spec, const lab_args *args, int64_t b);
    lab_output (*output)(const lab_spec *spec);
    lab_answer (*answer)(const lab_spec *spec, const lab_args *args, lab_row row);

    /* What is right: the oracle in float64, and the plain reference in float32, in one of `orders` orders of summation. `scratch`
     * has scratch() numbers. */
    int64_t (*scratch)(const lab_spec *spec, const lab_args *args);
    int orders;
    void (*oracle)(const lab_spec *spec, const lab_args *args, lab_row row, double *scratch,
                   double *o, double *lse);
    void (*plain)(const lab_spec *spec, const lab_args *args, lab_row row, int order,
                  float *scratch, float *o, float *lse);
} lab_operation;

#define ATT_OPERATION(name) extern const lab_operation lab_operation_##name;
#include "kernels/operations.def"

/* The i-th operation, NULL past the last. The first is the one of specs without a prefix. */
const lab_operation *lab_operation_at(size_t i);

#endif
