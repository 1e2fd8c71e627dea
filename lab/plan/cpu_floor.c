/* cpu_floor.c: what the widest instructions do a clock, times clocks, times processors. */
#include "lab/plan/cpu_floor.h"

#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const double clock_most = 7e9;

/* Operations (a multiply-add is two) of one processor a clock: twice those of the fastest known. AMX multiplies 16 x 32 by 32 x 16 in
 * 16 clocks, twice that in 8 bits; AVX-512 has two multiply-adds of 32 numbers of 16 bits, AVX2 and the rest two of 8 numbers
 * of 32 bits. */
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
    return PER_CLOCK_OTHER; /* vectors of 2048 bits */
#endif
}

/* All that there are where the system does not say which this process may use. */
static double processors(void) {
    cpu_set_t set;
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return allowed > 0 ? (double)allowed : (double)sysconf(_SC_NPROCESSORS_CONF);
}

double lab_cpu_peak(void) {
    return per_clock() * clock_most * processors();
}

double lab_cpu_floor_ns(const lab_spec *spec) {
    return 1e9 * lab_spec_flops(spec) / lab_cpu_peak();
}
