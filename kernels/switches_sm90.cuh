/* switches_sm90.cuh: the switches used only by Hopper kernels. Shared ones are in
 * switches.cuh. */
#ifndef ATT_SWITCHES_SM90_CUH
#define ATT_SWITCHES_SM90_CUH
#ifndef USE_SCORES_AHEAD
#define USE_SCORES_AHEAD 1
#endif
#ifndef USE_MAX_FREE
#define USE_MAX_FREE 1
#endif
#ifndef USE_LATE_CLAIM
#define USE_LATE_CLAIM 1
#endif
#ifndef USE_EARLY_L2
#define USE_EARLY_L2 1
#endif
#ifndef USE_L2_SECTIONS
#define USE_L2_SECTIONS 1
#endif
#ifndef USE_LONG_V_RING
#define USE_LONG_V_RING 1
#endif
#ifndef USE_CARRY
#define USE_CARRY 1
#endif
#ifndef USE_CUT_FROM_END
#define USE_CUT_FROM_END 1
#endif
#ifndef USE_ELECTED_LANE
#define USE_ELECTED_LANE 1
#endif
#ifndef USE_BOX_STORE
#define USE_BOX_STORE 1
#endif
#ifndef USE_EARLY_LAUNCH
#define USE_EARLY_LAUNCH 1
#endif
#ifndef USE_TURNS
#define USE_TURNS 1
#endif

#endif
