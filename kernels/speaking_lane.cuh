/* speaking_lane.cuh: the lane of a warp that does what must be done once (sm_90a). */
#ifndef ATT_SPEAKING_LANE_CUH
#define ATT_SPEAKING_LANE_CUH

#include "kernels/switches_sm90.cuh"
#include "kernels/warpgroup.cuh"

/* True in that one lane. All lanes must call it. */
DEVICE bool does_speak(void) {
    return USE_ELECTED_LANE ? elect_lane() : threadIdx.x % 32 == 0;
}

#endif
