/* saboteur_hands.h: memory operations for saboteurs, on the host or on a GPU. */
#ifndef LAB_SABOTEUR_HANDS_H
#define LAB_SABOTEUR_HANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "attest.h"

/* Enough for a copy of every input of a merge with the most parts, and for kept answers of up
 * to six outputs. */
enum { LAB_HANDS_BLOCKS = 2 * ATT_MERGE_PARTS_MAX + 128 };

typedef struct lab_hands {
    struct att_cuda_device *gpu; /* NULL on the CPU */
    void *block[LAB_HANDS_BLOCKS];
    size_t blocks;
} lab_hands;

/* Where the context computes. */
bool lab_hands_open(lab_hands *hands, att_context *ctx);
void lab_hands_close(lab_hands *hands);

/* Uninitialised memory, with its old contents; kept until the hands are closed. NULL if there
 * is none. */
void *lab_hands_take(lab_hands *hands, size_t bytes);

/* On the stream, in order; on the CPU immediately. */
bool lab_hands_copy(lab_hands *hands, void *to, const void *from, size_t bytes, void *stream);
bool lab_hands_fill(lab_hands *hands, void *to, unsigned char value, size_t bytes,
                    void *stream);

/* Zero the low byte of every two-byte element. */
bool lab_hands_blunt(lab_hands *hands, void *to, size_t elements, void *stream);

/* A stream of its own; NULL on the CPU. */
bool lab_hands_stream(lab_hands *hands, void **stream);
void lab_hands_drop_stream(lab_hands *hands, void *stream);

#endif
