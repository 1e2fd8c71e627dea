/* bwd_sm90_record.cuh: the description of an item, for all warps that work on it. Records form
 * a ring: the n-th record used describes the n-th item that the block takes. */
#ifndef ATT_BWD_SM90_RECORD_CUH
#define ATT_BWD_SM90_RECORD_CUH

enum {
    REC_ITEM, /* its number, or NO_ITEM */
    REC_BATCH,
    REC_KV_HEAD,
    REC_TILE,
    REC_LEN_Q,
    REC_LEN_K,
    REC_SHIFT,       /* of the diagonal */
    REC_FIRST_BLOCK, /* row blocks, for each query head of the group */
    REC_END_BLOCK,
    REC_ROW_Q, /* first row of the sequence in packed Q */
    REC_ROW_K, /* row of its key 0 */
    REC_BLOCK, /* first row block of the sequence among those of a head */
    REC_HELD,  /* keys in memory from key 0 on */
    REC_FIRST_K,
    REC_CLEAR_FIRST, /* row blocks in which every row sees every key of the tile */
    REC_CLEAR_END,
    REC_WORDS = 16
};
enum { RECORDS = 2, NO_ITEM = -1 };

#endif
