# mended.sed: what the virtual GPU found in fwd_sm90, mended: lanes of a warp that only one of speaks for come together first. The
# kernels get it with the next certification on a GPU; until then `make test-virtual` runs them with it.
/mbarrier_wait(barrier_of(a->shared, empty + at.place), at.parity ^ 1);/a\    __syncwarp();
/mbarrier_wait(barrier_of(a->shared, Q_EMPTY + which), parity_of(a->n, Q_STAGES) ^ 1);/a\    __syncwarp();
/mbarrier_wait(barrier_of(shared, O_FULL + group), parity_of(n, 1));/a\            __syncwarp();
