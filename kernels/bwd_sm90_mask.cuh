/* bwd_sm90_mask.cuh: which pairs of rows and keys of a step are visible. */
#ifndef ATT_BWD_SM90_MASK_CUH
#define ATT_BWD_SM90_MASK_CUH

#include "kernels/config.cuh"

typedef struct step_mask {
    int away;        /* key - diagonal, for this thread's first register */
    int left, right; /* keys visible on either side of the diagonal */
    int rows, keys;  /* rows and keys that exist, from this thread's first on */
} step_mask;

enum { MASK_UNLIMITED = 0x7fffffff };

/* A mask of which only the windows are set. */
DEVICE step_mask windows_of(const att_fwd_params *f) {
    step_mask m;
    m.left = f->window_left < 0 ? MASK_UNLIMITED : f->window_left;
    m.right = f->window_right < 0 ? MASK_UNLIMITED : f->window_right;
    return m;
}

#endif
