/* decode_tiling.h: the keys of a few rows shared by the blocks of a cluster, which merge what they made of them: one launch. */
#ifndef ATT_CUDA_DECODE_TILING_H
#define ATT_CUDA_DECODE_TILING_H

#include "attention/cuda/tiling.h"

/* What keeps the kernel from the problem, or NULL; *field is then the field at fault. */
const char *att_cuda_decode_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field);

enum { ATT_CLUSTER_SIZES = 5 }; /* 1, 2, 4, 8, 16 blocks */

/* How the keys of each tile of rows are shared. */
typedef struct att_cuda_decode_choice {
    int splits;   /* parts */
    bool cluster; /* the blocks of a cluster merge them; else, of several, a second kernel */
    double ns;    /* when it ends, by times fitted on an H200 */
} att_cuda_decode_choice;

/* The choice that ends soonest. clusters[n]: clusters of 2^n blocks that the GPU holds at once, a block an SM; `combines`: a
 * second kernel could merge the parts. */
att_cuda_decode_choice att_cuda_decode_choose(const att_cuda_kernel *kernel, int sms,
                                              const att_problem *p, int64_t tiles,
                                              const int clusters[ATT_CLUSTER_SIZES],
                                              bool combines);

/* Clusters that a GPU which is not asked holds at once. A cluster lies within a group of SMs: of an H200's 132, those of more
 * than two blocks reach 120. */
void att_cuda_assume_clusters(int clusters[ATT_CLUSTER_SIZES], int sms);

/* When fwd_decode_sm90 would end the problem, in nanoseconds; -1 where a tile of 8 rows holds all of a K/V head: no other kernel
 * is then asked. */
double att_cuda_decode_estimate(const att_cuda_kernel *kernel, const att_problem *p, int sms);

/* The same of fwd_decode; -1 where a tile holds all rows of a K/V head. */
double att_cuda_decode_blocks_estimate(const att_cuda_kernel *kernel, const att_problem *p,
                                       int sms);

/* Set parts and shape of `tiling`, whose function, parameters and grid of `tiles` blocks are set: a cluster, or, where `combines`
 * says that a second kernel could merge them and that ends sooner, parts without one. Errors: ATT_E_CUDA. */
/* Why fwd_decode_sm90 copies keys row by row and not as whole tiles, which takes longer: words after a
 * comma, for `explain`. Empty where it does not. */
void att_cuda_decode_remark(const att_cuda_kernel *kernel, const att_problem *p, char *text,
                            size_t n);

att_status att_cuda_decode_tiling(att_cuda_tiling *tiling, const att_cuda_kernel *kernel,
                                  const att_cuda_limits *limits, const att_problem *p,
                                  int64_t tiles, bool combines);

#endif
