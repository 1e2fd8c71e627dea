/* decode_tiling.h: divides the keys of a few rows among the blocks of a cluster, which merge
 * their results in the same launch. */
#ifndef ATT_CUDA_DECODE_TILING_H
#define ATT_CUDA_DECODE_TILING_H

#include "attention/cuda/tiling.h"

/* Why the kernel cannot serve the problem, or NULL; *field is then the field at fault. */
const char *att_cuda_decode_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field);

enum { ATT_CLUSTER_SIZES = 5 }; /* 1, 2, 4, 8, 16 blocks */

/* How the keys of each tile of rows are divided. */
typedef struct att_cuda_decode_choice {
    int splits;   /* parts */
    bool cluster; /* a cluster merges them; otherwise a second kernel, if several */
    double ns;    /* predicted time, fitted on an H200 */
} att_cuda_decode_choice;

/* The fastest choice. clusters[n]: clusters of 2^n blocks that the GPU holds at once, one block
 * per SM; `combines`: a second kernel could merge the parts. */
att_cuda_decode_choice att_cuda_decode_choose(const att_cuda_kernel *kernel, int sms,
                                              const att_problem *p, int64_t tiles,
                                              const int clusters[ATT_CLUSTER_SIZES],
                                              bool combines);

/* Assumed numbers of clusters that fit at once, for a GPU that is not queried. A cluster is
 * placed within a group of SMs: of an H200's 132, clusters of more than two blocks use at most
 * 120. */
void att_cuda_assume_clusters(int clusters[ATT_CLUSTER_SIZES], int sms);

/* The predicted time of fwd_decode_sm90 for the problem, in nanoseconds; -1 if it is empty. */
double att_cuda_decode_estimate(const att_cuda_kernel *kernel, const att_problem *p, int sms);

/* The same for fwd_decode_shares; below its time if lengths may be unequal, which the others'
 * estimates do not count. */
double att_cuda_shares_estimate(const att_cuda_kernel *kernel, const att_problem *p, int sms);

/* Its time if every sequence has seq_k keys. */
double att_cuda_shares_ns(const att_cuda_kernel *kernel, const att_problem *p, int sms);

/* Does a tile of 8 rows hold all rows of a K/V head? */
bool att_cuda_few_rows(const att_problem *p);

/* May the sequences of the problem have unequal numbers of keys? */
bool att_cuda_unequal_keys(const att_problem *p);

/* The same for fwd_decode; -1 if a tile holds all rows of a K/V head. */
double att_cuda_decode_blocks_estimate(const att_cuda_kernel *kernel, const att_problem *p,
                                       int sms);

/* Set parts and shape of `tiling`, whose function, parameters and grid of `tiles` blocks are
 * set: a cluster, or parts without one, if `combines` says that a second kernel could merge
 * them and that is faster. Errors: ATT_E_CUDA. */
/* Why fwd_decode_sm90 copies keys row by row instead of as whole tiles, which is slower: text
 * after a comma, for `explain`. Empty if it does not. */
void att_cuda_decode_remark(const att_cuda_kernel *kernel, const att_problem *p, char *text,
                            size_t n);

att_status att_cuda_decode_tiling(att_cuda_tiling *tiling, const att_cuda_kernel *kernel,
                                  const att_cuda_limits *limits, const att_problem *p,
                                  int64_t tiles, bool combines);

#endif
