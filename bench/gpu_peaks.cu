/* gpu_peaks.cu: the rates of this GPU that devices/ and the planner's model are made of, as one JSON document.
 *
 *     make gpu-peaks
 *
 * mma      mma.sync m16n8k16, 16-bit inputs and float32 sums, operands in registers: TFLOP/s
 * exp      ex2.approx: results a clock on one SM
 * memory   16-byte copies and reads over 4 GiB: TB/s, a copy counted twice
 * latency  of a dependent load that hits L2, and of one that does not: clocks
 * Each is the best of several runs of some tens of milliseconds; the operands are not zero, because zeros take
 * less power and let the clock rise. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "gpu_peaks: %s: %s\n", what, cudaGetErrorString(status));
        exit(3);
    }
}
#define CHECK(call) check(call, #call)

enum { CHAINS = 16, MMA_STEPS = 4096, EXP_CHAINS = 16, EXP_STEPS = 4096, CHASE_STEPS = 4096 };

#define MMA(type, d, a, b)                                                                                              \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                                \
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                           \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                               \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))

/* Random bits with the exponent of numbers between 1/4 and 2, both signs: f16 0x34xx.., bf16 0x3exx... */
__device__ unsigned operand(unsigned seed, bool bf16) {
    seed = seed * 2654435761u + 12345u;
    seed ^= seed >> 15;
    const unsigned keep = bf16 ? 0x80ff80ffu : 0x83ff83ffu, exponent = bf16 ? 0x3e003e00u : 0x34003400u;
    return (seed & keep) | exponent;
}

/* CHAINS sums that do not wait for each other, so that the tensor core never waits for one. */
#define MMA_PEAK(name, type, is_bf16)                                                                                   \
    __global__ void name(float *out) {                                                                                  \
        float d[CHAINS][4] = {};                                                                                        \
        unsigned a[2][4], b[4][2];                                                                                      \
        for (int i = 0; i < 8; i++) {                                                                                   \
            a[i / 4][i % 4] = operand(threadIdx.x * 16 + i, is_bf16);                                                   \
            b[i / 2][i % 2] = operand(threadIdx.x * 16 + 8 + i, is_bf16);                                               \
        }                                                                                                               \
        for (int step = 0; step < MMA_STEPS; step++)                                                                    \
            _Pragma("unroll") for (int c = 0; c < CHAINS; c++) MMA(type, d[c], a[c / 4 % 2], b[c % 4]);                 \
        float sum = 0.0f;                                                                                               \
        for (int c = 0; c < CHAINS; c++)                                                                                \
            sum += d[c][0] + d[c][1] + d[c][2] + d[c][3];                                                               \
        if (sum == 12345.678f)                                                                                          \
            *out = sum;                                                                                                 \
    }
MMA_PEAK(mma_peak_f16, "f16", false)
MMA_PEAK(mma_peak_bf16, "bf16", true)

__global__ void exp_peak(float *out, long long *clocks) {
    float x[EXP_CHAINS];
    for (int i = 0; i < EXP_CHAINS; i++)
        x[i] = -0.001f * (float)(threadIdx.x + i);
    __syncthreads();
    const long long start = clock64();
    for (int step = 0; step < EXP_STEPS; step++)
#pragma unroll
        for (int i = 0; i < EXP_CHAINS; i++)
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i]));
    __syncthreads();
    if (threadIdx.x == 0)
        *clocks = clock64() - start;
    float sum = 0.0f;
    for (int i = 0; i < EXP_CHAINS; i++)
        sum += x[i];
    if (sum == 12345.678f)
        *out = sum;
}

__global__ void copy_all(uint4 *to, const uint4 *from, size_t count) {
#pragma unroll 8
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}

__global__ void read_all(uint4 *to, const uint4 *from, size_t count) {
    uint4 x = make_uint4(0, 0, 0, 0);
#pragma unroll 8
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        const uint4 y = from[i];
        x.x ^= y.x ^ y.y ^ y.z ^ y.w;
    }
    if (x.x == 0x12345678u)
        *to = x;
}

__global__ void fill_chain(unsigned *chain, size_t count, size_t stride) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i * stride < count; i += (size_t)gridDim.x * blockDim.x)
        chain[i * stride] = (unsigned)((i + 1) * stride < count ? (i + 1) * stride : 0);
}

__global__ void chase(const unsigned *chain, unsigned *out, long long *clocks) {
    unsigned at = 0;
    const long long start = clock64();
    for (int i = 0; i < CHASE_STEPS; i++)
        at = *(const volatile unsigned *)&chain[at];
    *clocks = (clock64() - start) / CHASE_STEPS;
    *out = at;
}

static cudaEvent_t before, after;

static void begin(void) {
    CHECK(cudaEventRecord(before));
}

/* Seconds since begin(). */
static double end(void) {
    float ms;
    CHECK(cudaEventRecord(after));
    CHECK(cudaEventSynchronize(after));
    CHECK(cudaEventElapsedTime(&ms, before, after));
    CHECK(cudaGetLastError());
    return ms / 1e3;
}

static double measure_mma(int sms, int warps, int bf16, float *out) {
    double best = 0.0;
    for (int run = 0; run < 4; run++) {
        begin();
        for (int i = 0; i < 8; i++)
            (bf16 ? mma_peak_bf16 : mma_peak_f16)<<<sms * 2, warps * 16>>>(out);
        const double seconds = end(), flops = 8.0 * sms * warps * MMA_STEPS * CHAINS * 2.0 * 16 * 8 * 16;
        if (run > 0 && flops / seconds > best)
            best = flops / seconds;
    }
    return best;
}

static double measure_memory(uint4 *to, const uint4 *from, size_t bytes, int sms, bool copy) {
    double best = 0.0;
    for (int run = 0; run < 5; run++) {
        begin();
        if (copy)
            copy_all<<<sms * 16, 512>>>(to, from, bytes / 16);
        else
            read_all<<<sms * 16, 512>>>(to, from, bytes / 16);
        const double rate = (copy ? 2.0 : 1.0) * bytes / end();
        best = rate > best ? rate : best;
    }
    return best;
}

static long long measure_latency(unsigned *chain, size_t count, size_t stride, long long *clocks, int passes) {
    fill_chain<<<256, 256>>>(chain, count, stride);
    long long found = 0;
    for (int pass = 0; pass < passes; pass++) {
        chase<<<1, 1>>>(chain, chain + 1, clocks);
        CHECK(cudaMemcpy(&found, clocks, sizeof found, cudaMemcpyDeviceToHost));
    }
    return found;
}

int main(void) {
    cudaDeviceProp device;
    int driver, clock_khz;
    CHECK(cudaGetDeviceProperties(&device, 0));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
    CHECK(cudaEventCreate(&before));
    CHECK(cudaEventCreate(&after));
    const size_t bytes = (size_t)4 << 30;
    float *out;
    long long *clocks, exp_clocks;
    uint4 *from, *to;
    CHECK(cudaMalloc(&out, 64));
    CHECK(cudaMalloc(&clocks, 64));
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaMalloc(&to, bytes));
    CHECK(cudaMemset(from, 0x5a, bytes));
    const int sms = device.multiProcessorCount;

    exp_peak<<<1, 1024>>>(out, clocks);
    exp_peak<<<1, 1024>>>(out, clocks);
    CHECK(cudaMemcpy(&exp_clocks, clocks, sizeof exp_clocks, cudaMemcpyDeviceToHost));
    printf("{\n \"schema\": \"attest-gpu-peaks-1\",\n \"device\": {\"name\": \"%s\", \"compute_capability\": %d, \"sms\": %d,"
           " \"clock_khz\": %d, \"driver\": %d},\n",
           device.name, device.major * 10 + device.minor, sms, clock_khz, driver);
    printf(" \"mma_flops\": {");
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int warps = 4; warps <= 32; warps *= 2)
            printf("%s\"%s_%d_warps\": %.4g", bf16 || warps > 4 ? ", " : "", bf16 ? "bf16" : "f16", warps,
                   measure_mma(sms, warps, bf16, out));
    printf("},\n \"exp_per_clock_sm\": %.3f,\n", 1024.0 * EXP_STEPS * EXP_CHAINS / exp_clocks);
    printf(" \"copy_bytes\": %.4g,\n \"read_bytes\": %.4g,\n", measure_memory(to, from, bytes, sms, true),
           measure_memory(to, from, bytes, sms, false));
    /* A chain of lines that L2 holds, walked twice; and one of 1 GiB at strides that no cache or page holds. */
    const long long l2 = measure_latency((unsigned *)to, CHASE_STEPS * 64, 64, clocks, 3);
    CHECK(cudaMemset(to, 0, bytes));
    const long long memory = measure_latency((unsigned *)to, (size_t)CHASE_STEPS * 65536, 65536, clocks, 1);
    printf(" \"l2_clocks\": %lld,\n \"memory_clocks\": %lld\n}\n", l2, memory);
    return 0;
}
