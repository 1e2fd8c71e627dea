/* switches_bwd.cuh: the switches used only by backward kernels. Shared ones are in switches.cuh
 * and switches_sm90.cuh. */
#ifndef ATT_SWITCHES_BWD_CUH
#define ATT_SWITCHES_BWD_CUH

#ifndef USE_MORE_STORERS
#define USE_MORE_STORERS 1
#endif
#ifndef USE_ORDERED_DQ
#define USE_ORDERED_DQ 1
#endif
#ifndef USE_LATE_TURNS
#define USE_LATE_TURNS 1
#endif
#ifndef USE_EARLY_DV
#define USE_EARLY_DV 1
#endif
#ifndef USE_LATE_PUBLISH
#define USE_LATE_PUBLISH 1
#endif
#ifndef USE_TERMS_AHEAD
#define USE_TERMS_AHEAD 1
#endif
#ifndef USE_FINISH_INSIDE
#define USE_FINISH_INSIDE 1
#endif

#endif
