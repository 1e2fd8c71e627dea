/* buffer.h: memory with guards on both sides, poison inside and a hash of its contents. */
#ifndef LAB_BUFFER_H
#define LAB_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/message.h"

typedef struct lab_buffer {
    unsigned char *map; /* the mapping: guard, data, guard; NULL if there is no buffer */
    size_t map_bytes;
    unsigned char *data; /* first byte that the problem may address */
    size_t bytes;
    unsigned char poison; /* the byte to poison with: LAB_POISON, unless changed */
    uint64_t hash;        /* of the contents at the time of lab_buffer_seal() */
} lab_buffer;

/* Larger buffers are poisoned only at the elements of the problem and hashed only at both ends,
 * so that a few elements spread over many GiB cost little. */
#define LAB_BUFFER_LARGE ((size_t)256 << 20)

/* A byte that makes a NaN in every floating dtype; and one for integers, where -1 may be an
 * answer. */
enum { LAB_POISON = 0xff, LAB_POISON_INTEGER = 0x7f };

/* `bytes` of zeros (pages are not touched), `shift` bytes past a page-aligned address. */
bool lab_buffer_create(lab_buffer *buffer, size_t bytes, size_t shift, lab_message *why);
void lab_buffer_destroy(lab_buffer *buffer);

/* Fill with its poison. */
void lab_buffer_poison(lab_buffer *buffer);

/* Take the hash; and check whether it still matches. */
void lab_buffer_seal(lab_buffer *buffer);
bool lab_buffer_sealed(const lab_buffer *buffer);

/* Whether both guards are intact. */
bool lab_buffer_guarded(const lab_buffer *buffer);

/* A workspace as the library requires it, guarded and poisoned; NULL for 0 bytes. */
bool lab_workspace_create(lab_buffer *workspace, size_t bytes, lab_message *why);
void lab_workspace_poison(lab_buffer *workspace);
bool lab_workspace_check(const lab_buffer *workspace, lab_message *why);
void lab_workspace_destroy(lab_buffer *workspace);

/* Fold n bytes into a running hash. */
uint64_t lab_hash(uint64_t hash, const void *bytes, size_t n);

#endif
