/* switches.cuh: every switch of switches.def is on unless a row turns it off. */
#ifndef ATT_SWITCHES_CUH
#define ATT_SWITCHES_CUH

#ifndef USE_TILE_SKIP
#define USE_TILE_SKIP 1
#endif
#ifndef USE_CLEAR_TILES
#define USE_CLEAR_TILES 1
#endif
#ifndef USE_LDMATRIX
#define USE_LDMATRIX 1
#endif
#ifndef USE_SWIZZLE
#define USE_SWIZZLE 1
#endif
#ifndef USE_ASYNC_COPY
#define USE_ASYNC_COPY 1
#endif
#ifndef USE_PREFETCH
#define USE_PREFETCH 1
#endif
#ifndef USE_L2_PREFETCH
#define USE_L2_PREFETCH 1
#endif
#ifndef USE_Q_REGISTERS
#define USE_Q_REGISTERS 1
#endif
#ifndef USE_FAST_EXP2
#define USE_FAST_EXP2 1
#endif
#ifndef USE_LAZY_RESCALE
#define USE_LAZY_RESCALE 1
#endif
#ifndef USE_LONGEST_FIRST
#define USE_LONGEST_FIRST 1
#endif
#ifndef USE_VECTOR_STORE
#define USE_VECTOR_STORE 1
#endif
#ifndef USE_FAST_DIVIDE
#define USE_FAST_DIVIDE 1
#endif
#ifndef USE_EARLY_COMBINE
#define USE_EARLY_COMBINE 1
#endif

#endif
