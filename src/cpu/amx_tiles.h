/* amx_tiles.h: the AMX tile instructions by name, or their equivalent in C.
 *
 * Tile numbers are literals. The statements order memory for the compiler, which could
 * otherwise move the stores that fill a tile's memory past the load that reads it. With
 * ATT_AMX_EMULATE the same kernel source runs on a processor without AMX, and with
 * ATT_AVX512_EMULATE also on one without AVX-512. Only tests use these. */
#ifndef ATT_CPU_AMX_TILES_H
#define ATT_CPU_AMX_TILES_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

enum { AMX_ROWS = 16, AMX_ROW_BYTES = 64, AMX_TILE_BYTES = AMX_ROWS * AMX_ROW_BYTES };

#ifndef ATT_AMX_EMULATE

/* Configure all eight tiles as 16 rows of 64 bytes. */
static inline void amx_enter(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } __attribute__((aligned(64))) config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = AMX_ROW_BYTES;
        config.rows[i] = AMX_ROWS;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

static inline void amx_leave(void) {
    __asm__ volatile("tilerelease" : : : "memory");
}

#define AMX_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : : :)
#define AMX_LOAD(tile, base, stride)                                                           \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                                        \
                     :                                                                         \
                     : "r"(base), "r"((int64_t)(stride))                                       \
                     : "memory")
#define AMX_STORE(tile, base, stride)                                                          \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)"                                    \
                     :                                                                         \
                     : "r"(base), "r"((int64_t)(stride))                                       \
                     : "memory")
/* c[16][16] += a[16][32] * b[32][16]: bfloat16 products, float32 sums; b holds interleaved
 * pairs of rows */
#define AMX_MULTIPLY(c, a, b)                                                                  \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : :)

#else

static _Thread_local uint8_t amx_file[8][AMX_ROWS][AMX_ROW_BYTES];

static inline void amx_enter(void) {
    memset(amx_file, 0xff, sizeof amx_file);
}

static inline void amx_leave(void) {
    memset(amx_file, 0xff, sizeof amx_file);
}

static inline void amx_load(int tile, const void *base, int64_t stride) {
    for (int r = 0; r < AMX_ROWS; r++)
        memcpy(amx_file[tile][r], (const char *)base + r * stride, AMX_ROW_BYTES);
}

static inline void amx_store(int tile, void *base, int64_t stride) {
    for (int r = 0; r < AMX_ROWS; r++)
        memcpy((char *)base + r * stride, amx_file[tile][r], AMX_ROW_BYTES);
}

/* Subnormal operands and results count as zero, as on the hardware. */
#ifdef ATT_AVX512_EMULATE

static inline float amx_flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static inline void amx_multiply(int c, int a, int b) {
    float sums[AMX_ROWS][AMX_ROWS];
    uint16_t left[AMX_ROWS][2 * AMX_ROWS], right[AMX_ROWS][2 * AMX_ROWS];
    memcpy(sums, amx_file[c], sizeof sums);
    memcpy(left, amx_file[a], sizeof left);
    memcpy(right, amx_file[b], sizeof right);
    for (int k = 0; k < 2 * AMX_ROWS; k++) {
        double row[AMX_ROWS];
        for (int n = 0; n < AMX_ROWS; n++)
            row[n] = (double)amx_flush(att_bf16_to_f32(right[k / 2][2 * n + k % 2]));
        for (int m = 0; m < AMX_ROWS; m++) {
            const double x = (double)amx_flush(att_bf16_to_f32(left[m][k]));
            for (int n = 0; n < AMX_ROWS; n++)
                sums[m][n] = amx_flush((float)(x * row[n] + (double)sums[m][n]));
        }
    }
    memcpy(amx_file[c], sums, sizeof sums);
}

#else

static inline void amx_multiply(int c, int a, int b) {
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040);
    for (int m = 0; m < AMX_ROWS; m++) {
        __m512 sum = _mm512_loadu_ps(amx_file[c][m]);
        for (int k = 0; k < AMX_ROWS; k++) {
            uint32_t pair;
            memcpy(&pair, &amx_file[a][m][4 * k], sizeof pair);
            const __m512i rows = _mm512_loadu_si512(amx_file[b][k]);
            const __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(rows, 16));
            const __m512 odd = _mm512_castsi512_ps(
                _mm512_and_si512(rows, _mm512_set1_epi32((int)0xffff0000u)));
            sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_set1_epi32((int)(pair << 16))),
                                  even, sum);
            sum = _mm512_fmadd_ps(
                _mm512_castsi512_ps(_mm512_set1_epi32((int)(pair & 0xffff0000u))), odd, sum);
        }
        _mm512_storeu_ps(amx_file[c][m], sum);
    }
    _mm_setcsr(mode);
}

#endif

#define AMX_ZERO(tile)                memset(amx_file[tile], 0, sizeof amx_file[tile])
#define AMX_LOAD(tile, base, stride)  amx_load(tile, base, stride)
#define AMX_STORE(tile, base, stride) amx_store(tile, base, stride)
#define AMX_MULTIPLY(c, a, b)         amx_multiply(c, a, b)

#endif

#endif
