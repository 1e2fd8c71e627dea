/* gradient_tile.h: the state of one task: a chunk of keys against a block of rows, shared by
 * its walker and its products.
 *
 * What the products of an instruction set provide to the walker (gradient_walk_body.h):
 *   BLOCK_ROWS, CHUNK_KEYS     rows per block, keys per chunk
 *   STRIP_ROWS                 rows whose scores are computed at a time
 *   KEY_STEP                   granule of keys
 *   KEY_GROUP                  keys that add_key_sums() takes at a time
 *   WEIGH_ROWS                 rows that weigh_rows() takes at a time
 *   operands_map               the layout of the operands in the scratch
 *   sum_stride                 floats per row of the sums of d_q
 *   pack_keys, pack_rows       from the caller's layout to the operands
 *   strip_products             S = Q K^T and d_p = d_o V^T of a strip
 *   strip_s, strip_d_p         the addresses of those of row r of the block
 *   weigh_rows                 from them to weights and derivatives, the next operands
 *   clear_rows                 zeros instead
 *   clear_key_sums             d_k = d_v = 0
 *   add_key_sums               d_v += P^T d_o, d_k += d_s^T Q of the block
 *   add_row_sums               d_q (+)= d_s K of a strip
 *   settle_key_sums            d_k and d_v as rows of floats */
#ifndef ATT_BACKWARD_CPU_GRADIENT_TILE_H
#define ATT_BACKWARD_CPU_GRADIENT_TILE_H

#include "backward/cpu/gradient_job.h"

enum { STRIPS_MOST = 16 };

typedef struct gradient_tile {
    const att_gradient_job *job;
    att_cpu_sequence s;
    const att_row_fact *facts; /* of the pair's packed rows */
    bool shaped;               /* scores are more than scale * dot(q, k) */
    bool scores_only;          /* only d_s is needed */

    int64_t j0, keys; /* the chunk: keys j0 .. j0 + keys - 1 of the sequence */
    /* The block: `rows` packed rows, row0, row0 + row_step ... */
    int64_t row0, row_step, rows;
    /* The keys of the chunk, relative to j0, in whole steps, that some row of a strip, or of
     * the block, sees. */
    att_cpu_interval strip_keys[STRIPS_MOST], block_keys;
    att_cpu_interval touched_keys; /* block_keys, in whole groups of keys and whole vectors */

    char *q, *d_o, *k, *v;                    /* operands of S and d_p */
    char *q_right, *d_o_right, *k_right;      /* right operands of d_k, d_v and d_q */
    char *weights, *d_scores, *d_scores_left; /* left operands of d_v, d_k and d_q */
    float *scores, *d_weights;                /* S and d_p, float32 */
    float *d_k, *d_v;                         /* sums of the chunk, one row per key */
    float *d_k_turned, *d_v_turned; /* on AMX: the same while summing, one row per column */
    float *d_s;     /* [BLOCK_ROWS][CHUNK_KEYS]: by the final score, if scores_only */
    double *slopes; /* of the rows of the block, if d_alibi is requested */
    char *scaled;   /* rows of d_o times d_o_scale, if that is not 1 */
    const char **addresses;
} gradient_tile;

/* The packed row of row r of the block. */
static inline int64_t tile_row(const gradient_tile *t, int64_t r) {
    return t->row0 + r * t->row_step;
}

#endif
