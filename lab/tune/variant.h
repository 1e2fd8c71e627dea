/* variant.h: a built-in GPU row with other constants and switches, on its own context: what
 * ablate and tune verify and time. Made through the rows of att_context_options, like any
 * user's row. */
#ifndef LAB_VARIANT_H
#define LAB_VARIANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "attest.h"
#include "core/family.h"
#include "lab/base/message.h"
#include "lab/problem/spec.h"

enum { LAB_VARIANT_SWITCHES = 32, LAB_VARIANT_ID = 64, LAB_VARIANT_TEXT = 4096 };

typedef struct lab_variant {
    int m, n, stages, warps;
    uint32_t off; /* bit i: the i-th switch of the base is off */
} lab_variant;

/* The i-th switch of all kernels, in the order of kernels/switches.def; false past the last. */
bool lab_switch_at(size_t i, const char **source, const char **name, const char **text);

/* The built-in row that variants vary, and the problem and GPU that they are for. */
typedef struct lab_base {
    const lab_spec *spec;
    att_context_info gpu;
    const char *id, *source;
    const att_family *family;
    int d_qk, d_v;       /* that the row is for */
    lab_variant shipped; /* as built in: every switch on */
    const char *switches[LAB_VARIANT_SWITCHES];
    const char *switch_texts[LAB_VARIANT_SWITCHES];
    size_t switch_count;
    char source_sha256[65]; /* of the source text that it is compiled from */
} lab_base;

/* The row that `ctx` chooses for the problem, which must outlive it. Fails if there is no GPU
 * or no NVRTC, or if the row is a user's own or has no switches. */
bool lab_base_find(lab_base *base, att_context *ctx, const lab_spec *spec, lab_message *why);

/* The line for a rows file: constants, GPU and problem, without provenance. */
void lab_variant_row(const lab_base *base, const lab_variant *variant, const char *id,
                     char *buf, size_t n);

/* A context on which only the variant is available, under the name `id`. Fails with the
 * library's message. Plans refuse a variant whose registers spill, unless that is allowed. */
bool lab_variant_open(att_context **ctx, const lab_base *base, const lab_variant *variant,
                      const char *id, bool may_spill, lab_message *why);

/* The number of variants compiled at a time here, at least 1. */
size_t lab_variants_at_once(void);

/* Compile what the contexts would compile for the problem, several at a time; a failure is
 * reported again when the variant is used. After an interrupt the rest is left out. `stream` is
 * for the progress bar; NULL: none. */
void lab_variants_compile(att_context *const *contexts, size_t count, const lab_spec *spec,
                          FILE *stream);

/* "m64n64s3w4", then the switches that are off: "m64n64s3w4 -SWIZZLE". */
void lab_variant_name(const lab_base *base, const lab_variant *variant, char *buf, size_t n);

#endif
