/* cpu_floor.c: operations per clock of the widest instructions, times clock rate, times
 * processors. */
#include "lab/plan/cpu_floor.h"

#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const double clock_most = 7e9;

/* Operations (a multiply-add is two) per clock of one processor: twice those of the fastest
 * known. AMX multiplies 16 x 32 by 32 x 16 in 16 clocks, twice that in 8 bits; AVX-512 has two
 * multiply-adds of 32 16-bit numbers, AVX2 and the rest two of 8 32-bit numbers. */
enum {
    PER_CLOCK_AMX = 4096,
    PER_CLOCK_AVX512 = 256,
    PER_CLOCK_AVX2 = 64,
    PER_CLOCK_OTHER = 512
};

static double per_clock(void) {
#if defined(__x86_64__)
    enum { AVX2 = 1u << 5, AVX512F = 1u << 16, AMX_TILE = 1u << 24 };
    unsigned a, b = 0, c, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return PER_CLOCK_AVX2;
    return d & AMX_TILE ? PER_CLOCK_AMX : b & AVX512F ? PER_CLOCK_AVX512 : PER_CLOCK_AVX2;
#else
    return PER_CLOCK_OTHER; /* assume vectors of 2048 bits */
#endif
}

/* All processors if the system does not tell which ones this process may use. */
static double processors(void) {
    cpu_set_t set;
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return allowed > 0 ? (double)allowed : (double)sysconf(_SC_NPROCESSORS_CONF);
}

double lab_cpu_peak(void) {
    return per_clock() * clock_most * processors();
}

double lab_cpu_peak_anywhere(double count) {
    return PER_CLOCK_AMX * clock_most * count;
}

double lab_cpu_floor_ns(const lab_spec *spec) {
    return 1e9 * lab_spec_flops(spec) / lab_cpu_peak();
}
