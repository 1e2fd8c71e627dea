/* cpu_peaks.c: the measured peak rates of this processor: float32 FMA, AMX-bf16, reads from L3
 * and memory.
 *
 * usage: cpu_peaks THREADS        prints one JSON object; a unit that the machine lacks is null
 *        cpu_peaks --quiet N      prints the N CPUs that other work on their cores slows least:
 *                                 on a shared host a neighbour can take half of a core
 *        cpu_peaks --tiles        prints for each CPU the time of tile instructions, back to
 *                                 back and with vector instructions between them */
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef ATT_AMX_EMULATE /* a peak is the hardware's, or null */
#include "cpu/amx_tiles.h"
#include "cpu/features.h"

enum { THREADS_MOST = 256, L3_BYTES = 6 << 20, DRAM_BYTES = 192 << 20 };

typedef struct task {
    double (*measure)(size_t bytes); /* work done, in operations or bytes */
    size_t bytes;
    pthread_barrier_t *start;
    double work, seconds;
} task;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile float sink;

__attribute__((target("avx512f"))) static double fma_avx512(size_t bytes) {
    (void)bytes;
    enum { ROUNDS = 4000000, CHAINS = 16 };
    __m512 sum[CHAINS];
    const __m512 x = _mm512_set1_ps(0.999f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], x, x);
    for (int i = 0; i < CHAINS; i++)
        sink += _mm512_reduce_add_ps(sum[i]);
    return 2.0 * 16.0 * ROUNDS * CHAINS;
}

__attribute__((target("avx2,fma"))) static double fma_avx2(size_t bytes) {
    (void)bytes;
    enum { ROUNDS = 4000000, CHAINS = 12 };
    __m256 sum[CHAINS];
    const __m256 x = _mm256_set1_ps(0.999f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm256_fmadd_ps(sum[i], x, x);
    float lanes[8];
    for (int i = 0; i < CHAINS; i++) {
        _mm256_storeu_ps(lanes, sum[i]);
        sink += lanes[0];
    }
    return 2.0 * 8.0 * ROUNDS * CHAINS;
}

__attribute__((target("avx512f"))) static double amx_rounds(int rounds) {
    static const char zeros[AMX_TILE_BYTES] __attribute__((aligned(64)));
    amx_enter();
    AMX_LOAD(4, zeros, AMX_ROW_BYTES);
    AMX_LOAD(5, zeros, AMX_ROW_BYTES);
    AMX_LOAD(6, zeros, AMX_ROW_BYTES);
    AMX_LOAD(7, zeros, AMX_ROW_BYTES);
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    for (int r = 0; r < rounds; r++) {
        AMX_MULTIPLY(0, 4, 6);
        AMX_MULTIPLY(1, 4, 7);
        AMX_MULTIPLY(2, 5, 6);
        AMX_MULTIPLY(3, 5, 7);
    }
    amx_leave();
    return 4.0 * 2.0 * 16 * 16 * 32 * rounds;
}

static double amx(size_t bytes) {
    (void)bytes;
    return amx_rounds(400000);
}

/* Sum a private buffer repeatedly: 8 cache lines in flight per step. */
static double read_memory(size_t bytes) {
    const size_t n = bytes / sizeof(unsigned long long), rounds = ((size_t)1 << 30) / bytes;
    unsigned long long *buffer = malloc(bytes), total = 0;
    if (!buffer)
        return 0.0;
    memset(buffer, 1, bytes);
    const double start = now();
    for (size_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < n; i += 64)
            for (size_t line = 0; line < 64; line += 8)
                total += buffer[i + line];
    const double seconds = now() - start;
    sink += (float)total;
    free(buffer);
    return (double)bytes * (double)rounds /
           seconds; /* for a rate: filling the buffer does not count */
}

static void *run(void *argument) {
    task *t = argument;
    pthread_barrier_wait(t->start);
    const double start = now();
    t->work = t->measure(t->bytes);
    t->seconds = now() - start;
    return NULL;
}

/* Sum of the threads' rates, the best of three attempts. */
static double peak(int threads, double (*measure)(size_t), size_t bytes) {
    double best = 0.0;
    for (int attempt = 0; attempt < 3; attempt++) {
        pthread_t id[THREADS_MOST];
        task tasks[THREADS_MOST];
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, (unsigned)threads);
        for (int i = 0; i < threads; i++) {
            tasks[i] = (task){.measure = measure, .bytes = bytes, .start = &start};
            if (pthread_create(&id[i], NULL, run, &tasks[i]) != 0)
                exit(1);
        }
        double total = 0.0;
        for (int i = 0; i < threads; i++) {
            pthread_join(id[i], NULL);
            total += measure == read_memory ? tasks[i].work : tasks[i].work / tasks[i].seconds;
        }
        pthread_barrier_destroy(&start);
        best = total > best ? total : best;
    }
    return best / 1e9;
}

/* The time of a short multiplication loop of about a millisecond on this CPU, in seconds. */
static double short_run(att_isa isa) {
    const double start = now();
    if (isa >= ATT_ISA_AMX)
        amx_rounds(40000);
    else
        for (volatile int i = 0; i < 1000000; i++)
            continue;
    return now() - start;
}

/* The slowest of several short runs spread over time shows how much of a CPU its neighbours may
 * take. */
static int print_quiet(int wanted) {
    enum { PASSES = 8 };
    cpu_set_t all, one;
    double slowest[CPU_SETSIZE] = {0.0};
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return 1;
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &all))
                continue;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            if (sched_setaffinity(0, sizeof one, &one) != 0)
                return 1;
            const double seconds = short_run(att_cpu_isa());
            slowest[cpu] = seconds > slowest[cpu] ? seconds : slowest[cpu];
        }
    }
    for (int printed = 0; printed < wanted && printed < CPU_COUNT(&all); printed++) {
        int best = -1;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (slowest[cpu] > 0.0 && (best < 0 || slowest[cpu] < slowest[best]))
                best = cpu;
        printf("%s%d", printed ? "," : "", best);
        fprintf(stderr, "cpu %d: %.2f ms\n", best, 1e3 * slowest[best]);
        slowest[best] = 0.0;
    }
    printf("\n");
    return 0;
}

/* Eight independent vector instructions. */
#define VECTORS()                                                                              \
    __asm__ volatile("vfmadd213ps %%zmm8, %%zmm8, %%zmm0\n\t"                                  \
                     "vfmadd213ps %%zmm8, %%zmm8, %%zmm1\n\t"                                  \
                     "vfmadd213ps %%zmm8, %%zmm8, %%zmm2\n\t"                                  \
                     "vfmadd213ps %%zmm8, %%zmm8, %%zmm3\n\t"                                  \
                     "vfmadd213ps %%zmm8, %%zmm8, %%zmm4\n\t"                                  \
                     "vfmadd213ps %%zmm8, %%zmm8, %%zmm5\n\t"                                  \
                     "vfmadd213ps %%zmm8, %%zmm8, %%zmm6\n\t"                                  \
                     "vfmadd213ps %%zmm8, %%zmm8, %%zmm7"                                      \
                     :                                                                         \
                     :                                                                         \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7")
#define NOTHING()  (void)0
#define LOAD(tile) AMX_LOAD(tile, tiles + (tile)*AMX_TILE_BYTES, AMX_ROW_BYTES)
#define PRODUCTS(between)                                                                      \
    do {                                                                                       \
        AMX_MULTIPLY(0, 4, 6);                                                                 \
        between();                                                                             \
        AMX_MULTIPLY(1, 4, 7);                                                                 \
        between();                                                                             \
        AMX_MULTIPLY(2, 5, 6);                                                                 \
        between();                                                                             \
        AMX_MULTIPLY(3, 5, 7);                                                                 \
        between();                                                                             \
    } while (0)
#define LOADS(between)                                                                         \
    do {                                                                                       \
        LOAD(4);                                                                               \
        between();                                                                             \
        LOAD(5);                                                                               \
        between();                                                                             \
        LOAD(6);                                                                               \
        between();                                                                             \
        LOAD(7);                                                                               \
        between();                                                                             \
    } while (0)

enum { PRODUCT, PRODUCT_VECTORS, TILE_LOAD, PAIR, PAIR_VECTORS, TILE_KINDS };

/* Nanoseconds per instruction of a kind; a pair is a load and a product. */
__attribute__((target("avx512f"))) static double tile_time(int kind) {
    enum { ROUNDS = 512 };
    static const char tiles[8 * AMX_TILE_BYTES] __attribute__((aligned(64)));
    __asm__ volatile("vzeroall"
                     :
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8");
    const double start = now();
    for (int r = 0; r < ROUNDS; r++) {
        if (kind == PRODUCT)
            PRODUCTS(NOTHING);
        else if (kind == PRODUCT_VECTORS)
            PRODUCTS(VECTORS);
        else if (kind == TILE_LOAD)
            LOADS(NOTHING);
        if (kind == PAIR) {
            LOADS(NOTHING);
            PRODUCTS(NOTHING);
        } else if (kind == PAIR_VECTORS) {
            LOADS(VECTORS);
            PRODUCTS(VECTORS);
        }
    }
    return 1e9 * (now() - start) / (4 * ROUNDS);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int print_tiles(void) {
    enum { SAMPLES = 41 };
    cpu_set_t all, one;
    if (att_cpu_isa() < ATT_ISA_AMX || sched_getaffinity(0, sizeof all, &all) != 0) {
        fprintf(stderr, "cpu_peaks: no AMX on this machine\n");
        return 1;
    }
    printf(
        "ns, median    product   + 8 vectors   load   load and product   each + 8 vectors\n");
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        double times[TILE_KINDS][SAMPLES];
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (!CPU_ISSET(cpu, &all) || sched_setaffinity(0, sizeof one, &one) != 0)
            continue;
        amx_enter();
        for (int i = 0; i < SAMPLES; i++)
            for (int kind = 0; kind < TILE_KINDS; kind++)
                times[kind][i] = tile_time(kind);
        amx_leave();
        for (int kind = 0; kind < TILE_KINDS; kind++)
            qsort(times[kind], SAMPLES, sizeof(double), by_value);
        printf("cpu %-8zu %9.1f %13.1f %6.1f %18.1f %18.1f\n", cpu, times[PRODUCT][SAMPLES / 2],
               times[PRODUCT_VECTORS][SAMPLES / 2], times[TILE_LOAD][SAMPLES / 2],
               times[PAIR][SAMPLES / 2], times[PAIR_VECTORS][SAMPLES / 2]);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--quiet") == 0 && atoi(argv[2]) > 0)
        return print_quiet(atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "--tiles") == 0)
        return print_tiles();
    const int threads = argc == 2 ? atoi(argv[1]) : 0;
    if (threads < 1 || threads > THREADS_MOST) {
        fprintf(stderr, "usage: cpu_peaks THREADS (1 .. %d), --quiet N or --tiles\n",
                THREADS_MOST);
        return 2;
    }
    const att_isa isa = att_cpu_isa();
    char name[64];
    att_cpu_name(name, sizeof name);
    printf("{\"cpu\": \"%s\", \"threads\": %d", name, threads);
    if (isa >= ATT_ISA_AVX2)
        printf(", \"fma_gflops\": %.1f",
               peak(threads, isa >= ATT_ISA_AVX512 ? fma_avx512 : fma_avx2, 0));
    else
        printf(", \"fma_gflops\": null");
    if (isa >= ATT_ISA_AMX)
        printf(", \"amx_gflops\": %.1f", peak(threads, amx, 0));
    else
        printf(", \"amx_gflops\": null");
    printf(", \"l3_gbs\": %.1f", peak(threads, read_memory, L3_BYTES));
    printf(", \"dram_gbs\": %.1f}\n", peak(threads, read_memory, DRAM_BYTES));
    return 0;
}
