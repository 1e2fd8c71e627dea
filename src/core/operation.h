/* operation.h: one table per operation: what the core must know to check, plan and run it.
 *
 * The core handles problems, arguments and extents as untyped memory of the sizes below. */
#ifndef ATT_CORE_OPERATION_H
#define ATT_CORE_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attest.h"

enum {
    ATT_BUFFERS_MAX = 264, /* per run, including the workspace */
    ATT_ARGS_MAX = 256,    /* bytes of an operation's arguments */
    ATT_EXTENTS_MAX = 256, /* and of its extents */
    ATT_SIZES_MAX = 8      /* sizes that may limit a user's row */
};

/* A buffer of a run: its name, address and extent. */
typedef struct att_buffer {
    const char *name; /* the field of the arguments */
    const void *base;
    int64_t extent; /* bytes; 0: never accessed */
    size_t element; /* alignment of an element */
    size_t vector;  /* alignment that GPU kernels assume; 0: that of an element */
    bool absent;    /* not among the problem's features, so it must be NULL */
    bool output;
} att_buffer;

/* A size of a problem. */
typedef struct att_size {
    const char *name;
    size_t offset; /* of the int64_t in the problem */
} att_size;

typedef struct att_operation {
    const char *name; /* "attention" */

    /* Structs begin with their size; `first` is their size in the first release that had
     * them. */
    size_t problem_bytes, problem_first;
    size_t args_bytes, args_first;
    size_t extents_bytes; /* what check() measures */

    /* Check every field of a problem and measure its buffers. */
    att_status (*check)(const void *problem, void *extents);

    /* List the buffers of a run, outputs and inputs, without the workspace; returns their
     * number. *workspace_size is the caller's size of the workspace, or 0 if not given. Called
     * in every run: must only loop over the buffers. */
    int (*buffers)(const void *problem, const void *extents, const void *args,
                   att_buffer list[ATT_BUFFERS_MAX], size_t *workspace_size);

    /* Do outputs i and j of that list share no byte although their extents overlap, because
     * their rows alternate? NULL: none do. */
    bool (*interleaved)(const void *problem, const att_buffer *list, int i, int j);

    /* Check the data through which other data is read (lengths, page ids), if the host can read
     * it. May be NULL. */
    att_status (*check_data)(const void *problem, const void *args);

    /* What limits a user's rows (user_rows.h): sizes, one mode and traits; none: no user
     * rows. */
    const att_size *sizes;
    size_t size_count;
    const char *mode_field; /* "causal" */
    const char *const *mode_names;
    size_t mode_count;
    int (*mode)(const void *problem);
    const char *const *trait_names; /* of the bits, lowest first */
    size_t trait_count;
    uint32_t (*traits)(const void *problem);
} att_operation;

#define ATT_OPERATION(name) extern const att_operation att_operation_##name;
#include "kernels/operations.def"

/* The i-th operation, NULL past the last. */
const att_operation *att_operation_at(size_t i);

static inline int64_t att_size_of(const att_size *size, const void *problem) {
    return *(const int64_t *)(const void *)((const char *)problem + size->offset);
}

#endif
