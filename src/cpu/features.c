/* features.c: detection by feature bits, never by model number. */
#include "cpu/features.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef ATT_AMX_EMULATE
enum { TILES_EMULATED = 1 }; /* a build for tests: see amx_tiles.h */
#else
enum { TILES_EMULATED = 0 };
#endif
#ifdef ATT_AVX512_EMULATE
enum { AVX512_EMULATED = 1 }; /* a build for tests: see simd_wide.h */
#else
enum { AVX512_EMULATED = 0 };
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct registers {
    unsigned a, b, c, d;
} registers;

static registers cpuid(unsigned leaf, unsigned sub) {
    registers r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, sub, &r.a, &r.b, &r.c, &r.d))
        return (registers){0, 0, 0, 0};
    return r;
}

static bool bits(unsigned value, unsigned mask) {
    return (value & mask) == mask;
}

/* State that the operating system saves: SSE and AVX 0x6, AVX-512 0xe0, AMX tiles 0x60000. */
static uint64_t saved_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux grants the tile registers only on request (arch_prctl ARCH_REQ_XCOMP_PERM). */
static bool tiles_permitted(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* On Intel cores with AMX, vdpbf16ps is half as fast as an FMA on the same numbers in float32:
 * bfloat16 is meant for AMX. AVX512-FP16 also identifies these cores if a hypervisor masks
 * AMX. */
static bool dot_products_are_slow(registers seven) {
    const registers vendor = cpuid(0, 0);
    const bool intel =
        vendor.b == 0x756e6547 && vendor.d == 0x49656e69 && vendor.c == 0x6c65746e;
    const unsigned avx512_fp16 = 1u << 23, amx_tile = 1u << 24;
    return intel && (seven.d & (avx512_fp16 | amx_tile)) != 0;
}

/* With or without emulated instruction sets. */
static att_isa detect(bool emulated) {
    const registers one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = cpuid(7, 1);
    const unsigned osxsave_fma_f16c = 1u << 27 | 1u << 12 | 1u << 29;
    if (!bits(one.c, osxsave_fma_f16c) || !bits(seven.b, 1u << 5 /* AVX2 */))
        return ATT_ISA_PORTABLE;
    const uint64_t saved = saved_state();
    if ((saved & 0x6) != 0x6)
        return ATT_ISA_PORTABLE;
    if (emulated && AVX512_EMULATED)
        return ATT_ISA_AVX512_BF16;
    const unsigned f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    if (!bits(seven.b, f_dq_bw_vl) || (saved & 0xe0) != 0xe0)
        return ATT_ISA_AVX2;
    /* Leaf 0x1D, the tile palette, is not queried: hypervisors mask it although the tiles
     * work. */
    const unsigned amx_bf16_tile = 1u << 22 | 1u << 24;
    const bool tiles =
        bits(seven.d, amx_bf16_tile) && (saved & 0x60000) == 0x60000 && tiles_permitted();
    if (!bits(seven1.a, 1u << 5 /* AVX512_BF16 */))
        return ATT_ISA_AVX512;
    if (tiles || (emulated && TILES_EMULATED))
        return ATT_ISA_AMX;
    return dot_products_are_slow(seven) ? ATT_ISA_AVX512 : ATT_ISA_AVX512_BF16;
}

void att_cpu_name(char *name, size_t n) {
    char brand[49] = {0};
    if (cpuid(0x80000000u, 0).a >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++) {
            const registers r = cpuid(0x80000002u + i, 0);
            memcpy(brand + 16 * i, &r, 16);
        }
    }
    const char *start = brand;
    while (*start == ' ')
        start++;
    snprintf(name, n, "%s", *start ? start : "unknown");
}

#else

#if defined(__aarch64__)
#include <sys/auxv.h>

static att_isa detect(bool emulated) {
    const unsigned long asimd = 1ul << 1; /* HWCAP_ASIMD */
    (void)emulated;
    return getauxval(AT_HWCAP) & asimd ? ATT_ISA_NEON : ATT_ISA_PORTABLE;
}

/* Such a processor has numbers in place of a name. Cores of servers; others are named by their numbers. */
static const struct {
    unsigned implementer, part;
    const char *name;
} cores[] = {
    {0x41, 0xd08, "Arm Cortex-A72"},  {0x41, 0xd0c, "Arm Neoverse N1"},
    {0x41, 0xd40, "Arm Neoverse V1"}, {0x41, 0xd49, "Arm Neoverse N2"},
    {0x41, 0xd4f, "Arm Neoverse V2"}, {0x41, 0xd84, "Arm Neoverse V3"},
    {0x41, 0xd8e, "Arm Neoverse N3"}, {0x46, 0x001, "Fujitsu A64FX"},
    {0x4e, 0x010, "NVIDIA Olympus"},  {0xc0, 0xac3, "AmpereOne"},
};

void att_cpu_name(char *name, size_t n) {
    /* HWCAP_CPUID: Linux answers for the register below. */
    const unsigned long may_read = 1ul << 11;
    if (!(getauxval(AT_HWCAP) & may_read)) {
        snprintf(name, n, "aarch64, unknown");
        return;
    }
    uint64_t midr;
    __asm__("mrs %0, midr_el1" : "=r"(midr));
    const unsigned implementer = (unsigned)(midr >> 24) & 0xff,
                   part = (unsigned)(midr >> 4) & 0xfff;
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
        if (cores[i].implementer == implementer && cores[i].part == part) {
            snprintf(name, n, "%s", cores[i].name);
            return;
        }
    }
    snprintf(name, n, "aarch64, implementer 0x%02x, part 0x%03x", implementer, part);
}
#else
static att_isa detect(bool emulated) {
    (void)emulated;
    return ATT_ISA_PORTABLE;
}

void att_cpu_name(char *name, size_t n) {
    snprintf(name, n, "unknown");
}
#endif

#endif

static att_isa usable, own;

static void detect_all(void) {
    own = detect(false);
    usable = AVX512_EMULATED || TILES_EMULATED ? detect(true) : own;
}

static void detect_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect_all);
}

att_isa att_cpu_isa(void) {
    detect_once();
    return usable;
}

att_isa att_cpu_isa_unasked(void) {
    detect_once();
    return own;
}

bool att_isa_includes(att_isa has, att_isa needs) {
    if (has == ATT_ISA_NEON || needs == ATT_ISA_NEON)
        return needs == has || needs <= ATT_ISA_PORTABLE;
    return needs <= has;
}

static const char *const isa_names[] = {"auto",        "portable", "avx2", "avx512",
                                        "avx512_bf16", "amx",      "neon"};
enum { ISA_COUNT = sizeof isa_names / sizeof isa_names[0] };

const char *att_isa_name(att_isa isa) {
    return (unsigned)isa < ISA_COUNT ? isa_names[isa] : "?";
}

att_isa att_isa_parse(const char *name, int *ok) {
    *ok = 1;
    for (int i = 0; i < ISA_COUNT; i++)
        if (strcmp(name, isa_names[i]) == 0)
            return (att_isa)i;
    *ok = 0;
    return ATT_ISA_AUTO;
}
