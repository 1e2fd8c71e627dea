/* fwd_sm90_registers.cuh: the registers of S, O, P and Q per thread of a warpgroup of 64
 * rows. */
#ifndef ATT_FWD_SM90_REGISTERS_CUH
#define ATT_FWD_SM90_REGISTERS_CUH

#include "kernels/config.cuh"

#define IS_PLAIN (ROLE != GENERAL)

/* FEATURES */
#define HAS_ALIBI     ((FEATURES & FEATURE_ALIBI) != 0)
#define HAS_SOFTCAP   ((FEATURES & FEATURE_SOFTCAP) != 0)
#define HAS_BIAS      ((FEATURES & FEATURE_BIAS) != 0)
#define HAS_V_WARP    (!HAS_BIAS) /* a warp is free to load V from pages */
#define HAS_MASK      ((FEATURES & FEATURE_MASK) != 0)
#define SHAPES_SCORES (HAS_ALIBI || HAS_SOFTCAP || HAS_BIAS) /* not only scaled products */
static_assert(IS_PLAIN || FEATURES == 0, "GENERAL has every feature");
static_assert(!HAS_MASK || !SHAPES_SCORES, "lists are walked straight");

#define S_COUNT  (TILE_N / 2) /* registers per thread */
#define O_COUNT  (D_V / 2)
#define P_COUNT  (TILE_N / 4)
#define K_STEPS  ((D_QK + 15) / 16)
#define V_STEPS  (TILE_N / 16)
static_assert(D_QK % 16 == 0 && D_V % 16 == 0 && D_V <= 256, "whole steps of the tensor cores");

#endif
