/* attest.h: fused attention from plain C, in four calls.
 *
 *     att_context *ctx;   att_context_create(&ctx, NULL);
 *     att_problem  p;     att_problem_init(&p, 1, 8, 8, 512, 512, 64, 64, ATT_BF16);
 *     att_plan    *plan;  att_plan_create(&plan, ctx, &p);
 *     att_args     a = {.size = sizeof a, .q = q, .k = k, .v = v, .o = o};
 *     att_plan_run(plan, &a, workspace, NULL);     // att_plan_workspace(plan) bytes
 *
 * computes, for every batch entry b, query head h and query row i,
 *
 *     s[j] = scale * dot(q[b,h,i], k[b,h/group,j])               j = 0 .. seq_k-1
 *     s[j] = softcap * tanh(s[j] / softcap)                      if softcap > 0
 *     s[j] = s[j] - slope[b,h] * |diagonal(i) - j| + bias[b,h,i,j]
 *     s[j] = -inf                                                where the mask hides key j
 *     o[b,h,i] = sum_j exp(s[j]) v[b,h/group,j] / (sum_j exp(s[j]) + exp(sink[h]))
 *     lse[b,h,i] = log(sum_j exp(s[j]) + exp(sink[h]))           natural logarithm
 *
 * with float32 accumulation. diagonal(i) is i (top-left) or i + seq_k - seq_q (bottom-right),
 * with the lengths of the sequence itself where lengths vary. For a shard of a longer sequence
 * it is i + q_offset - k_offset; see att_problem.
 * A row that sees no key gives o = 0 and lse = -inf (lse = sink[h] where there is a sink).
 * docs/numerics.md has the whole numerical contract; examples/ has whole programs.
 *
 * On a GPU (ATT_DEVICE_CUDA) every pointer of att_args, and the workspace, is an address that
 * the GPU reads: device, managed or registered host memory. att_plan_run() queues the work on
 * the caller's stream and returns before it is done.
 *
 * The library never prints, exits or aborts. Every function that can fail returns an
 * att_status; att_last_error() has the text and the name of the field at fault.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTEST_H
#define ATTEST_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATT_API __attribute__((visibility("default")))
#else
#define ATT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ version */

#define ATT_VERSION_MAJOR  0
#define ATT_VERSION_MINOR  2
#define ATT_VERSION_PATCH  0
#define ATT_VERSION_STRING "0.2.0"

/* Version of the library that is loaded, "major.minor.patch". Thread: safe. */
ATT_API const char *att_version(void);

/* ------------------------------------------------------------------- status */

/* Values are never renumbered; new ones are added at the end. */
typedef enum att_status {
    ATT_OK = 0,
    ATT_E_ARG = 1,         /* a value out of its range, a null pointer, an unknown enum */
    ATT_E_STRUCT = 2,      /* a descriptor's size field is not one this library knows */
    ATT_E_OVERFLOW = 3,    /* sizes or strides whose product does not fit 63 bits */
    ATT_E_UNSUPPORTED = 4, /* a valid problem that no kernel of this context serves */
    ATT_E_ALIAS = 5,       /* an output overlaps an input, another output or itself */
    ATT_E_DATA =
        6, /* contents at fault: cu_seqlens, lens_k, starts_k, offsets, page ids, expert ids */
    ATT_E_WORKSPACE = 7, /* workspace null, misaligned or too small */
    ATT_E_MEMORY = 8,    /* an allocation failed */
    ATT_E_DEVICE = 9,    /* the requested device or instruction set is not available */
    ATT_E_SYSTEM = 10,   /* the operating system refused (a thread could not be started) */
    ATT_E_CUDA = 11      /* a CUDA call failed; att_error.cuda_code is the driver's code */
} att_status;

/* The name of a status, e.g. "ATT_E_ARG". Never NULL. Thread: safe. */
ATT_API const char *att_status_name(att_status status);

typedef struct att_error {
    att_status status;
    int cuda_code;  /* the driver's code where a CUDA call failed, else 0 */
    char field[48]; /* the field at fault, e.g. "heads_q"; "" where none is */
    char text[464]; /* one sentence, e.g. "heads_q=6 is not a multiple of heads_kv=4" */
} att_error;

/* The latest failure on this thread. Never NULL; status is ATT_OK before the first failure.
 * A call that succeeds leaves it as it is. Thread: safe, each thread has its own. */
ATT_API const att_error *att_last_error(void);

/* -------------------------------------------------------------------- types */

typedef enum att_dtype {
    ATT_F32 = 1,
    ATT_F16 = 2,
    ATT_BF16 = 3,
    ATT_BOOL8 = 4 /* bias only: one byte per key, 0 hides it */
} att_dtype;

/* Bytes of one element, 0 for an unknown dtype. Thread: safe. */
ATT_API size_t att_dtype_size(att_dtype dtype);

typedef enum att_causal {
    ATT_CAUSAL_NONE = 0,
    ATT_CAUSAL_TOP_LEFT = 1,    /* row i sees keys 0 .. i */
    ATT_CAUSAL_BOTTOM_RIGHT = 2 /* row i sees keys 0 .. i + seq_k - seq_q */
} att_causal;

/* Where the diagonal of a window or of ALiBi lies when `causal` is none; causal names it. */
typedef enum att_align {
    ATT_ALIGN_UNSET = 0, /* fine where seq_q = seq_k, an error where the two would differ */
    ATT_ALIGN_TOP_LEFT = 1,
    ATT_ALIGN_BOTTOM_RIGHT = 2
} att_align;

/* Optional inputs and outputs, or-ed into att_problem.features. Each names a pointer of
 * att_args that must then be set; a pointer without its feature is an error, never ignored. */
enum {
    ATT_LSE = 1u << 0,          /* args.lse: log-sum-exp per row, float32 */
    ATT_ALIBI = 1u << 1,        /* args.alibi: slopes, float32 */
    ATT_BIAS = 1u << 2,         /* args.bias: added to the scores, or a boolean mask */
    ATT_SINKS = 1u << 3,        /* args.sinks: one logit per query head, float32 */
    ATT_CU_SEQLENS_Q = 1u << 4, /* args.cu_seqlens_q: packed queries of varying length */
    ATT_CU_SEQLENS_K = 1u << 5, /* args.cu_seqlens_k: packed keys of varying length */
    ATT_LENS_K = 1u << 6,       /* args.lens_k: keys in use per batch entry (a K/V cache) */
    ATT_PAGED = 1u << 7,        /* args.page_table: K and V live in pages */
    ATT_STARTS_K = 1u << 8, /* args.starts_k: first key in use per batch entry (left padding) */
    ATT_Q_OFFSETS = 1u << 9,  /* args.q_offsets: a shard's first row, per batch entry */
    ATT_K_OFFSETS = 1u << 10, /* args.k_offsets: a shard's first key, per batch entry */
    ATT_FEATURES_ALL = (1u << 11) - 1
};

/* Gradients requested in addition to d_q, d_k and d_v: att_problem.gradients. */
enum {
    ATT_D_BIAS = 1u << 0, /* args.d_bias; of an additive bias, not of a boolean mask */
    ATT_D_SINKS = 1u << 1,
    ATT_D_ALIBI = 1u << 2,
    ATT_GRADIENTS_ALL = (1u << 3) - 1
};

/* Element (not byte) strides. `col`, the stride along the head dimension, must be 1 for every
 * tensor except the bias. The stride of a dimension of size 1 is ignored. Inputs may have
 * stride 0 (broadcast); outputs may not; negative strides are an error. */
typedef struct att_strides {
    int64_t batch, head, row, col;
} att_strides;

/* Everything about an attention except the pointers. Fill with att_problem_init(), then
 * change. */
typedef struct att_problem {
    size_t size; /* sizeof(att_problem) */
    uint32_t features;
    att_dtype dtype;   /* of Q, K and V */
    att_dtype dtype_o; /* of O; any of F32, F16, BF16 */

    int64_t batch;             /* 0 is allowed: nothing to do */
    int64_t heads_q, heads_kv; /* heads_q a multiple of heads_kv (GQA; MQA is heads_kv = 1) */
    int64_t seq_q, seq_k;      /* the longest, where lengths vary; 0 is allowed */
    int64_t d_qk, d_v;         /* 1 to 256 */

    /* Q (batch, heads_q, seq_q, d_qk), K (batch, heads_kv, seq_k, d_qk), V (.., d_v), O (..,
     * d_v). With ATT_CU_SEQLENS_Q, Q and O are (total_q, heads_q, d): `batch` is ignored
     * and row r of sequence b is row cu_seqlens_q[b] + r; likewise K and V with
     * ATT_CU_SEQLENS_K. With ATT_PAGED, K and V are (num_pages, heads_kv, page_size, d):
     * `batch` is the stride from page to page, and row j of sequence b is row j % page_size of
     * page page_table[b][j / page_size]. att_problem_layout_bshd() and _bhsd() set all of
     * these. */
    att_strides q, k, v, o;
    att_strides lse; /* (batch, heads_q, seq_q) or (heads_q, total_q); col is ignored */

    float scale; /* finite; att_problem_init() sets 1/sqrt(d_qk) */
    att_causal causal;
    att_align align;
    int64_t window_left;  /* keys seen left of the diagonal; -1: no limit */
    int64_t window_right; /* and right of it */
    float softcap;        /* 0: none */

    int64_t alibi_stride_batch; /* slopes are (batch, heads_q), heads contiguous; 0: shared */
    att_dtype bias_dtype;       /* F32, F16, BF16 or BOOL8 */
    att_strides bias;           /* (batch, heads_q, seq_q, seq_k), zeros broadcast */

    /* Rows of packed Q/O and K/V, with cu_seqlens; a run may use fewer. */
    int64_t total_q, total_k;
    int64_t page_size, num_pages; /* ATT_PAGED: keys in a page, pages in K and V */
    int64_t page_table_stride; /* ATT_PAGED: entries from one batch entry's table to the next */

    /* Bytes to which the bases of q, k, v, o and bias are aligned; 0: 16. Used on a GPU only:
     * bases or rows aligned to fewer than 16 take a slower path. A power of two, at least the
     * size of the smaller element. */
    int64_t alignment;

    /* Only att_backward_plan_create() reads the fields from here to grad_bias.
     * att_problem_init() sets the type of the inputs and their contiguous layout; the layout
     * functions set these strides with the others. */
    uint32_t gradients;   /* beside d_q, d_k and d_v: ATT_D_BIAS, ATT_D_SINKS, ATT_D_ALIBI */
    att_dtype dtype_grad; /* of d_q, d_k and d_v: dtype, or F32, which makes d_bias F32 too */
    att_strides grad_o;   /* of args.d_o, as o, and of its type */
    att_strides grad_q, grad_k, grad_v; /* of args.d_q, d_k and d_v, as q, k and v */
    /* Of args.d_bias: (batch, heads_q, seq_q, seq_k), of bias_dtype or F32. 0 in exactly the
     * dimensions that the bias is broadcast along, where the gradient is summed. */
    att_strides grad_bias;

    /* For shards of a longer sequence: the positions of the first row and of the first key in
     * the whole, 0 .. 2^60. Row i is at position q_offset + i and key j at k_offset + j, so
     * that causal mask, window and ALiBi are those of the whole: diagonal(i) = i + q_offset -
     * k_offset. Rows 1024 .. 2047 of a causal sequence over its keys 0 .. 511: q_offset = 1024,
     * k_offset = 0, ATT_CAUSAL_TOP_LEFT.
     * Both 0: no shard. With one above 0, or with ATT_Q_OFFSETS or ATT_K_OFFSETS, `causal` and
     * `align` must be top-left or unset: positions replace the bottom-right alignment.
     * args.q_offsets and k_offsets are added per batch entry. att_merge_run() makes one result
     * of the parts of a row that saw different keys. */
    int64_t q_offset, k_offset;
} att_problem;

/* What ran, not what the selector chose. On the CPU the kernel's own entry point writes it; on
 * a GPU it is read from the loaded machine code that was launched. */
typedef struct att_launch {
    const char *kernel;    /* id compiled into the code that ran; lives like the library */
    uint32_t grid[3];      /* CPU: tasks, splits of K/V, 1 */
    uint32_t block[3];     /* CPU: threads that took part, 1, 1 */
    uint64_t shared_bytes; /* CPU: scratch bytes per thread; GPU: dynamic bytes per block */
    uint32_t registers;    /* GPU: per thread; CPU: 0 */
    char code_sha256[65];  /* GPU: of the machine code given to the driver; CPU: "" */
} att_launch;

/* The pointers of one run. Zero it, set size, then the pointers that the problem uses. Lengths
 * and pages are data, not part of a plan: one plan serves every step of a growing cache. */
typedef struct att_args {
    size_t size; /* sizeof(att_args) */
    const void *q, *k, *v;
    void *o;
    float *lse;
    const float *alibi;
    const void *bias;
    const float *sinks;
    const int32_t
        *cu_seqlens_q; /* batch + 1 entries: starts at 0, non-decreasing, <= total_q */
    const int32_t *cu_seqlens_k; /* likewise; with ATT_PAGED only the differences count */
    const int32_t *lens_k;       /* batch entries, each 0 .. seq_k; 0: no key, so o = 0 */
    /* (batch, ceil(seq_k / page_size)), ids 0 .. num_pages-1. Sequences may share pages.
     * Entries past the page of a sequence's last key are ignored. */
    const int32_t *page_table;
    att_launch *launch;    /* optional: filled by the kernel that runs */
    size_t workspace_size; /* optional: bytes at workspace, checked where it is not 0 */
    /* batch entries, each 0 .. seq_k: keys before this one are hidden, so that batch entry b
     * uses the keys starts_k[b] .. lens_k[b]-1 (.. seq_k-1 without lens_k; counted from the
     * sequence's first key with cu_seqlens_k). Where no key is in use, o = 0. A start moves no
     * diagonal: alignment, windows and ALiBi count rows and keys as they do without it. K and V
     * before the start, and their page ids, are not read and may hold anything. */
    const int32_t *starts_k;

    /* Used by att_backward_run() alone, which also reads o and lse. */
    const void *d_o;
    void *d_q, *d_k, *d_v;
    void *d_bias;
    float *d_sinks; /* heads_q */
    float *d_alibi; /* as alibi: (batch, heads_q), or (heads_q) where alibi_stride_batch is 0 */

    /* Forward and backward: `batch` entries each, 0 or more, added to att_problem.q_offset and
     * k_offset. */
    const int32_t *q_offsets, *k_offsets;
} att_args;

/* Fill `problem`: size, the shapes given, dtype_o = dtype, contiguous (batch, seq, heads, d)
 * strides, scale 1/sqrt(d_qk), no mask, no features. Does not check; att_plan_create() does.
 * Thread: safe. */
ATT_API void att_problem_init(att_problem *problem, int64_t batch, int64_t heads_q,
                              int64_t heads_kv, int64_t seq_q, int64_t seq_k, int64_t d_qk,
                              int64_t d_v, att_dtype dtype);

/* The same for an att_problem of `size` bytes, sizeof(att_problem) in the caller's header: no
 * more is written, even if the loaded library's struct is longer. With this header,
 * att_problem_init() is this function. Callers that look up functions by name (FFI) must use
 * this one: the symbol att_problem_init is for programs built with 0.1, and fills the struct of
 * 0.1. Thread: safe. */
ATT_API void att_problem_init_sized(att_problem *problem, size_t size, int64_t batch,
                                    int64_t heads_q, int64_t heads_kv, int64_t seq_q,
                                    int64_t seq_k, int64_t d_qk, int64_t d_v, att_dtype dtype);
#define att_problem_init(problem, ...)                                                         \
    att_problem_init_sized(problem, sizeof(att_problem), __VA_ARGS__)

/* Set the strides of q, k, v and o for a layout, and of lse: contiguous (batch, heads_q,
 * seq_q).
 *   bshd    (batch, seq, heads, d)
 *   bhsd    (batch, heads, seq, d)
 *   packed  q, k, v in one (batch, seq, heads_q*d_qk + heads_kv*d_qk + heads_kv*d_v) buffer,
 *           for seq_q = seq_k; k and v start at *k_offset and *v_offset elements; o is bshd
 * Set features, total_q, total_k and page_size before the call: with ATT_CU_SEQLENS_Q, lse
 * becomes (heads_q, total_q); with ATT_PAGED, k and v become (num_pages, page_size, heads_kv,
 * d) for bshd and (num_pages, heads_kv, page_size, d) for bhsd, and page_table_stride
 * ceil(seq_k / page_size). Thread: safe. */
ATT_API void att_problem_layout_bshd(att_problem *problem);
ATT_API void att_problem_layout_bhsd(att_problem *problem);
ATT_API void att_problem_layout_packed(att_problem *problem, int64_t *k_offset,
                                       int64_t *v_offset);

/* ------------------------------------------------------------------ context */

/* A device, its threads and its kernels. Opaque; the plans made from it keep it alive. */
typedef struct att_context att_context;

typedef enum att_device {
    /* The CPU where the options name an instruction set or a number of threads; else what the
     * environment's ATTEST_DEVICE names (cpu, cuda or cuda:N); else the first GPU of compute
     * capability 8.0 or newer that the library has code for; else the CPU. */
    ATT_DEVICE_AUTO = 0,
    ATT_DEVICE_CPU = 1,
    ATT_DEVICE_CUDA = 2
} att_device;

typedef enum att_isa {
    ATT_ISA_AUTO = 0, /* the best this CPU has, or what the environment's ATTEST_ISA names */
    ATT_ISA_PORTABLE = 1, /* plain C */
    ATT_ISA_AVX2 = 2,     /* AVX2, FMA, F16C */
    ATT_ISA_AVX512 = 3,   /* AVX-512 F, BW, DQ, VL */
    /* AVX-512 with BF16, where its dot products are faster than FMA: AMD from Zen 4 on, Cooper
     * Lake; and where there is AMX */
    ATT_ISA_AVX512_BF16 = 4,
    ATT_ISA_AMX = 5, /* AVX-512 with BF16, AMX-tile, AMX-bf16 */
    /* NEON (ASIMD) of aarch64, above portable alone: the others are of x86-64 */
    ATT_ISA_NEON = 6
} att_isa;

enum {
    /* On a GPU, the slow kernels of docs/ladder.md may be chosen (also by
     * ATTEST_ALLOW_SLOW=1). */
    ATT_ALLOW_SLOW = 1u << 0,
    /* float32 on AMX, as three bfloat16 parts: as accurate as FMA, and faster where the tile
     * unit is not shared or throttled, as it is on many hosts. */
    ATT_AMX_F32 = 1u << 1,
    /* Kernels without complete evidence may be chosen (also by ATTEST_ALLOW_UNATTESTED=1). On a
     * GPU architecture that has no evidence, these are all of them; `attest certify` certifies
     * them. */
    ATT_ALLOW_UNATTESTED = 1u << 2,
    /* On a GPU, a run does not ask the driver whether the GPU can reach each array: for callers
     * that know where their arrays are. Saves one driver call per array; a wrong address is
     * then a fault on the device. */
    ATT_TRUST_POINTERS = 1u << 3
};

typedef struct att_context_options {
    size_t size; /* sizeof(att_context_options) */
    att_device device;
    int32_t device_index; /* which GPU, with ATT_DEVICE_CUDA */
    /* CPU threads a run may use, including the caller's; 0: the environment's ATTEST_THREADS,
     * or as many as the process may be scheduled on. */
    int32_t threads;
    att_isa isa; /* the highest instruction set to use */
    /* ATT_ALLOW_SLOW, ATT_AMX_F32 (also by the environment's ATTEST_AMX_F32=1),
     * ATT_ALLOW_UNATTESTED, ATT_TRUST_POINTERS. */
    uint32_t flags;
    const char *cache_dir; /* compiled GPU kernels; NULL: the user's cache folder; "": none */
    /* The only kernel that may serve, by its id; with a * at the end, those with that prefix.
     * NULL: the environment's ATTEST_KERNEL, or all of them. */
    const char *kernel;
    /* Further kernels: rows like the built-in ones with other tiles, stages, warps and
     * switches, compiled by NVRTC. Each serves only the problems and the model of GPU that it
     * names, and takes precedence there. docs/tuning.md has the format; `attest tune` writes
     * it. Rows do not serve on the CPU, but those named here or by ATTEST_ROWS are still
     * checked.
     *
     * rows       the text itself; NULL: from a file; "": none
     * rows_file  the file; NULL: what the environment's ATTEST_ROWS names ("": none), or the
     *            user's own, $XDG_CONFIG_HOME/attest/rows or ~/.config/attest/rows, where there
     *            is one; "": none */
    const char *rows;
    const char *rows_file;
} att_context_options;

/* Open a device. `options` may be NULL: every field zero except size. A GPU stays open for the
 * life of the process, through its primary context: the one that the CUDA runtime and PyTorch
 * use. A mistake in a rows file is ATT_E_ARG, and the text names file, line and field.
 *
 * Thread   safe
 * Errors   ATT_E_ARG, ATT_E_STRUCT, ATT_E_DEVICE, ATT_E_MEMORY, ATT_E_SYSTEM, ATT_E_CUDA */
ATT_API att_status att_context_create(att_context **out, const att_context_options *options);

/* Drop the caller's reference; NULL is fine. Plans made from the context keep it alive.
 *
 * libattest.so stays mapped after dlclose(), because a context's threads run its code. A
 * plug-in that links libattest.a must be linked with -z nodelete, or destroy its contexts
 * first. */
ATT_API void att_context_destroy(att_context *ctx);

typedef struct att_context_info {
    size_t size;         /* sizeof(att_context_info), set by the caller */
    att_device device;   /* what ATT_DEVICE_AUTO selected */
    att_isa isa;         /* the highest instruction set this context uses; GPU: ATT_ISA_AUTO */
    att_isa isa_machine; /* the highest this machine has */
    int32_t threads;     /* GPU: 0 */
    char name[64];       /* the processor, as it names itself */

    /* A GPU context's GPU; zero and "" on the CPU. */
    int64_t memory_bytes;
    int32_t device_index;
    int32_t compute_capability; /* 90 is 9.0 */
    int32_t multiprocessors;
    int32_t driver_version; /* the CUDA version that the driver speaks: 13000 is 13.0 */
    char gpu_name[64];
    char gpu_uuid[48]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
} att_context_info;

/* Describe the context. Thread: safe. Errors: ATT_E_ARG, ATT_E_STRUCT. */
ATT_API att_status att_context_query(const att_context *ctx, att_context_info *info);

/* --------------------------------------------------------------------- plan */

/* A frozen choice of kernel, tiles and workspace for one problem. Immutable. */
typedef struct att_plan att_plan;

/* Choose a kernel for `problem` and freeze the choice. On a GPU this loads the kernel's code,
 * and compiles it where it is not embedded: the slow part is here, never in a run.
 *
 * out      the plan, or NULL on failure; att_plan_destroy() frees it
 * problem  copied; set problem->size = sizeof *problem
 * Thread   safe. A plan is immutable: any number of threads may run it, each with its own
 *          workspace
 * Errors   ATT_E_ARG, ATT_E_STRUCT, ATT_E_OVERFLOW, ATT_E_ALIAS (o overlaps itself),
 *          ATT_E_MEMORY, ATT_E_CUDA, ATT_E_UNSUPPORTED (att_last_error() names the nearest
 *          kernel and the field that ruled it out) */
ATT_API att_status att_plan_create(att_plan **out, att_context *ctx,
                                   const att_problem *problem);

/* Free the plan; NULL is fine. No run of it may be in progress. */
ATT_API void att_plan_destroy(att_plan *plan);

/* Bytes of workspace that a run needs, at an address aligned to ATT_WORKSPACE_ALIGN. A multiple
 * of that alignment, as aligned_alloc() requires. If it is 0, the workspace may be NULL. Plans
 * that never run at the same time may share a workspace of the largest size. Thread: safe. */
#define ATT_WORKSPACE_ALIGN 64
ATT_API size_t att_plan_workspace(const att_plan *plan);

/* Stable id of the chosen kernel, e.g. "fwd_cpu_avx512". Lives as long as the library; for a
 * user's row, as long as its context. Thread: safe. */
ATT_API const char *att_plan_kernel(const att_plan *plan);

/* ---------------------------------------------------------------------- run */

/* Compute. Allocates nothing, prints nothing. On any error the outputs are untouched.
 *
 * On a GPU the work is queued on `stream` and the call does not wait, so a run may be captured
 * into a CUDA graph and replayed on changed data. Every address is checked before the launch:
 * null, alignment, overlap, and that it is memory of this GPU (or managed, or registered host
 * memory). Contents are not checked: cu_seqlens, lens_k, starts_k, offsets and page ids are in
 * the GPU's memory, so the kernels clamp them. A bad one gives a wrong answer for its sequence,
 * is never followed out of bounds, and is not reported (the CPU reports ATT_E_DATA). A fault
 * that an earlier call left on the device is reported as ATT_E_CUDA by the next one.
 *
 * workspace  att_plan_workspace() bytes, contents arbitrary; not shared between runs in
 *            progress (on a GPU, until the stream has passed them); checked against
 *            args->workspace_size if that is set
 * stream     the GPU stream (cudaStream_t, CUstream), NULL for the default one; must be NULL on
 *            the CPU, where the run is complete on return
 * Thread     safe. If callers overlap on the CPU, one gets the context's threads and the others
 *            compute on their own thread
 * Errors     ATT_E_ARG, ATT_E_STRUCT, ATT_E_OVERFLOW, ATT_E_ALIAS, ATT_E_DATA,
 *            ATT_E_WORKSPACE, ATT_E_CUDA */
ATT_API att_status att_plan_run(const att_plan *plan, const att_args *args, void *workspace,
                                void *stream);

/* ----------------------------------------------------------------- backward */

/* The gradients of attention: of a loss whose gradient with respect to o is d_o. For every row
 * i that sees key j, with p[i,j] = exp(s[i,j] - lse[i]) and delta[i] = dot(d_o[i], o[i]),
 *
 *     d_s[i,j]  = p[i,j] (dot(d_o[i], v[j]) - delta[i])    with respect to the final score
 *     d_x[i,j]  = d_s[i,j] (1 - (c[i,j] / softcap)^2)      with respect to scale * dot(q, k);
 *                                                          c: after softcap, before ALiBi, bias
 *     d_q[i]    = scale * sum_j d_x[i,j] k[j]
 *     d_k[j]    = scale * sum_i d_x[i,j] q[i]              over the query heads of the group
 *     d_v[j]    = sum_i p[i,j] d_o[i]                      likewise
 *     d_bias    = d_s, summed over the dimensions that the bias is broadcast along
 *     d_alibi   = -sum_ij d_s[i,j] |diagonal(i) - j|
 *     d_sinks   = -sum_i exp(sink - lse[i]) delta[i]
 *
 * The problem is that of the forward call, with ATT_LSE and the fields from `gradients` to
 * `grad_bias` filled in; o and lse are what the forward call wrote. Rows that see no key, and
 * keys that no row sees, have gradients of 0; the contents of masked keys never reach one. The
 * bits are the same from run to run, on the CPU with any number of threads. Pages (ATT_PAGED)
 * are refused.
 *
 *     att_problem_init(&p, 1, 8, 8, 512, 512, 64, 64, ATT_BF16);
 *     p.features = ATT_LSE;
 *     att_plan *plan;  att_backward_plan_create(&plan, ctx, &p);
 *     att_args a = {.size = sizeof a, .q = q, .k = k, .v = v, .o = o, .lse = lse,
 *                   .d_o = d_o, .d_q = d_q, .d_k = d_k, .d_v = d_v};
 *     att_backward_run(plan, &a, workspace, stream);
 *
 * These behave like att_plan_create(), att_plan_run() and att_context_explain(). Use
 * att_plan_destroy(), _workspace(), _kernel() and _explain() for these plans too. */
ATT_API att_status att_backward_plan_create(att_plan **out, att_context *ctx,
                                            const att_problem *problem);
ATT_API att_status att_backward_run(const att_plan *plan, const att_args *args, void *workspace,
                                    void *stream);
ATT_API att_status att_backward_explain(att_context *ctx, const att_problem *problem, char *buf,
                                        size_t n);

/* -------------------------------------------------------------------- merge */

/* Merge n partial results of the same query rows into one: from keys in several parts, from a
 * cache shared by several sequences, or from the steps of ring attention. For every row,
 *
 *     lse = log(sum_i exp(part_lse[i]))            natural logarithm
 *     o   = sum_i exp(part_lse[i] - lse) part_o[i]
 *
 * with float32 accumulation. A part whose lse is -inf saw no key: it is ignored, whatever its o
 * holds. A row that no part saw gives o = 0 and lse = -inf. If some parts have lse = +inf, o is
 * the mean of these and lse = +inf. NaN in a part's lse, or in the o of a part that counts,
 * reaches its row and no other. Attention with sinks adds the sink to every part's lse: merge
 * parts without sinks.
 *
 *     att_merge_problem m;  att_merge_problem_init(&m, 2, 1, 8, 512, 64, ATT_BF16);
 *     att_plan *plan;       att_merge_plan_create(&plan, ctx, &m);
 *     const void *o2[2] = {o_a, o_b};  const float *lse2[2] = {lse_a, lse_b};
 *     att_merge_args a = {.size = sizeof a, .part_o = o2, .part_lse = lse2, .o = o};
 *     att_merge_run(plan, &a, workspace, stream); */
enum { ATT_MERGE_PARTS_MAX = 128 };

typedef struct att_merge_problem {
    size_t size;       /* sizeof(att_merge_problem) */
    uint32_t features; /* ATT_LSE: args.lse is written */
    att_dtype dtype;   /* of the parts' o: F32, F16, BF16 */
    att_dtype dtype_o; /* of the merged o; any of the three */
    int64_t
        parts; /* 1 .. ATT_MERGE_PARTS_MAX; merge the results of merges where there are more */
    int64_t batch, heads, seq; /* 0 is allowed: nothing to do */
    int64_t d;                 /* 1 or more */
    att_strides part_o;        /* of every part, (batch, heads, seq, d), col 1 */
    att_strides part_lse;      /* of every part, (batch, heads, seq); col is ignored */
    att_strides o, lse;
    int64_t alignment; /* bytes to which the bases of o and of every part are aligned; 0: 16 */
} att_merge_problem;

typedef struct att_merge_args {
    size_t size; /* sizeof(att_merge_args) */
    /* Arrays of `parts` addresses in host memory, which are read before the call returns. The
     * addresses are of memory of the plan's device. */
    const void *const *part_o;
    const float *const *part_lse;
    void *o;
    float *lse;
    att_launch *launch;    /* optional: filled by the kernel that runs */
    size_t workspace_size; /* optional: bytes at workspace, checked where it is not 0 */
} att_merge_args;

/* Fill `problem`: size, the shapes given, dtype_o = dtype, ATT_LSE, contiguous (batch, seq,
 * heads, d) for every o and (batch, heads, seq) for every lse, as att_problem_init() does.
 * `size` is sizeof(att_merge_problem). Does not check; att_merge_plan_create() does. Thread:
 * safe. */
ATT_API void att_merge_problem_init_sized(att_merge_problem *problem, size_t size,
                                          int64_t parts, int64_t batch, int64_t heads,
                                          int64_t seq, int64_t d, att_dtype dtype);
#define att_merge_problem_init(problem, ...)                                                   \
    att_merge_problem_init_sized(problem, sizeof(att_merge_problem), __VA_ARGS__)

/* These behave like att_plan_create(), att_plan_run() and att_context_explain(). Use
 * att_plan_destroy(), _workspace(), _kernel() and _explain() for these plans too. */
ATT_API att_status att_merge_plan_create(att_plan **out, att_context *ctx,
                                         const att_merge_problem *problem);
ATT_API att_status att_merge_run(const att_plan *plan, const att_merge_args *args,
                                 void *workspace, void *stream);
ATT_API att_status att_merge_explain(att_context *ctx, const att_merge_problem *problem,
                                     char *buf, size_t n);

/* ---------------------------------------------------------------------- moe */

/* A mixture of experts in one call, from the router's logits to the output. Token t goes to the
 * experts id[t,0] .. id[t,k-1] with the weights p[t,j]; then, with e = id[t,j],
 *
 *     g = W1[e] x[t] + b1[e]   u = W3[e] x[t] + b3[e]   gate and up; g alone without a gate
 *     h = act(g, u)                                     rounded to dtype
 *     y[t] = sum_j p[t,j] (W2[e] h + b2[e])             in the order j = 0 .. k-1, rounded once
 *
 * with float32 accumulation. The bits are the same from run to run, on the CPU with any number
 * of threads. A token's answer does not depend on the other tokens; NaN in a token reaches its
 * own row of y and no other. docs/moe.md has the whole contract.
 *
 *     att_moe_problem m;  att_moe_problem_init(&m, 4096, 2048, 768, 128, 8, ATT_BF16);
 *     att_plan *plan;     att_moe_plan_create(&plan, ctx, &m);
 *     att_moe_args a = {
 *         .size = sizeof a, .x = x, .logits = logits, .w1 = w1, .w2 = w2, .y = y};
 *     att_moe_run(plan, &a, workspace, stream); */
typedef enum att_moe_activation {
    ATT_MOE_SWIGLU = 0,     /* silu(g) u */
    ATT_MOE_GEGLU = 1,      /* gelu(g) u, gelu by erf */
    ATT_MOE_GEGLU_TANH = 2, /* gelu(g) u, gelu by tanh */
    /* With g at most `limit` and u within +-limit: (u + 1) g sigmoid(alpha g), as GPT-OSS has
     * it. */
    ATT_MOE_SWIGLU_CLAMPED = 3,
    /* Without a gate: w1 has `inner` rows. */
    ATT_MOE_RELU2 = 4, /* max(g, 0)^2 */
    ATT_MOE_SILU = 5,
    ATT_MOE_GELU = 6, /* by erf */
    ATT_MOE_GELU_TANH = 7
} att_moe_activation;

/* How logits become experts and weights, in float32. Experts are in descending order of the
 * score that selects them; of equal scores the lower id comes first; NaN counts as lower than
 * every number, and -0 as equal to 0. Ids are the same on every device. Weights follow the
 * arithmetic: a NaN in a softmax makes the weights of its token NaN. Logits of +inf share the
 * whole weight equally; if all are -inf, all weigh the same. */
typedef enum att_moe_routing {
    ATT_MOE_SOFTMAX_TOPK =
        0, /* softmax over all experts, then the k largest (Mixtral, Qwen3) */
    ATT_MOE_TOPK_SOFTMAX = 1, /* the k largest, then softmax over these (GPT-OSS) */
    /* Scores are sigmoid(logit). The k largest of score + correction (if there is one) are
     * selected; the weights are the scores alone. With groups, only experts of the groups_kept
     * best groups are selected; a group counts as the sum of its two best experts
     * (DeepSeek-V3). */
    ATT_MOE_SIGMOID = 2,
    ATT_MOE_GIVEN = 3 /* args.given_ids and args.given_weights; id -1: no expert */
} att_moe_routing;

/* Where the rows of gate and up are stored; their biases likewise. */
typedef enum att_moe_gate {
    ATT_MOE_CONCATENATED = 0, /* w1 is (experts, 2 inner, hidden): gate rows, then up rows */
    ATT_MOE_APART = 1,      /* w1 has the gate, w3 the up rows, each (experts, inner, hidden) */
    ATT_MOE_INTERLEAVED = 2 /* w1 is (experts, 2 inner, hidden): gate, up, gate, up ... */
} att_moe_gate;

/* Optional inputs and outputs, or-ed into att_moe_problem.features, as for attention. */
enum {
    ATT_MOE_BIAS1 = 1u << 0,      /* args.b1, and args.b3 where the gate is apart */
    ATT_MOE_BIAS2 = 1u << 1,      /* args.b2 */
    ATT_MOE_CORRECTION = 1u << 2, /* args.correction, with ATT_MOE_SIGMOID */
    ATT_MOE_MASK = 1u << 3,       /* args.mask */
    ATT_MOE_IDS = 1u << 4,        /* args.ids is written */
    ATT_MOE_WEIGHTS = 1u << 5,    /* args.weights is written */
    ATT_MOE_COUNTS = 1u << 6,     /* args.counts is written */
    ATT_MOE_FEATURES_ALL = (1u << 7) - 1
};

enum {
    /* Divide the weights of a token by their sum (plus 1e-20). Changes nothing with
     * ATT_MOE_TOPK_SOFTMAX, whose weights sum to 1; refused with ATT_MOE_GIVEN. */
    ATT_MOE_RENORMALISE = 1u << 0,
    /* Weights are stored transposed: w1 (experts, hidden, 2 inner), or (.., inner) with the
     * gate apart or without one; w2 (experts, inner, hidden). Gate and up then share the last
     * axis as they otherwise share the rows. */
    ATT_MOE_TRANSPOSED = 1u << 1,
    ATT_MOE_FLAGS_ALL = (1u << 2) - 1
};

enum { ATT_MOE_EXPERTS_MAX = 4096 };

/* Element strides of the weights; the last axis is contiguous. */
typedef struct att_moe_strides {
    int64_t expert, row;
} att_moe_strides;

typedef struct att_moe_problem {
    size_t size; /* sizeof(att_moe_problem) */
    uint32_t features;
    uint32_t flags;         /* ATT_MOE_RENORMALISE, ATT_MOE_TRANSPOSED */
    att_dtype dtype;        /* of x, w1, w2 and w3, and of h: F16, BF16; on the CPU also F32 */
    att_dtype dtype_y;      /* of y: dtype, or F32 */
    att_dtype dtype_logits; /* of the logits: F32, or dtype */
    att_dtype dtype_bias;   /* of b1, b2 and b3: F32, or dtype */
    att_moe_activation activation;
    att_moe_routing routing;
    att_moe_gate gate;
    float scaling;      /* the weights are multiplied by it, last; finite */
    float alpha, limit; /* of ATT_MOE_SWIGLU_CLAMPED: finite, limit above 0 */

    int64_t tokens; /* 0 is allowed: nothing to do; tokens x experts_per_token is below 2^31 */
    int64_t hidden, inner;     /* columns of x and y; columns of h; each 1 .. 2^48 */
    int64_t experts;           /* 1 .. ATT_MOE_EXPERTS_MAX */
    int64_t experts_per_token; /* k: 1 .. experts */
    /* Expert parallelism: the weights and biases hold experts first_expert .. first_expert +
     * local_experts - 1, and y leaves out what the others would add. Routing, ids, weights and
     * counts are those of all experts. */
    int64_t first_expert, local_experts;
    /* With ATT_MOE_SIGMOID: groups of equal size, two experts or more each; 1: no groups. */
    int64_t groups, groups_kept;

    /* Element strides from a token, an expert or a row to the next. Inputs may have stride 0; y
     * may not. */
    int64_t x_row, y_row; /* (tokens, hidden) */
    int64_t logits_row;   /* (tokens, experts) */
    att_moe_strides w1, w3, w2;
    int64_t b1_expert, b3_expert; /* as w1 and w3 without `hidden` */
    int64_t b2_expert;            /* (experts, hidden) */

    /* Bytes to which the bases of x, y and the weights are aligned; 0: 16. Used on a GPU only:
     * bases or rows aligned to fewer than 16 take a slower path. A power of two, at least the
     * size of the smaller element. */
    int64_t alignment;
} att_moe_problem;

typedef struct att_moe_args {
    size_t size; /* sizeof(att_moe_args) */
    const void *x;
    const void *logits; /* not with ATT_MOE_GIVEN */
    const void *w1, *w2;
    const void *w3; /* ATT_MOE_APART */
    const void *b1, *b2, *b3;
    const float *correction; /* experts */
    const uint8_t *mask;     /* tokens; 0: the token has no experts, its y is 0 */
    /* (tokens, k), contiguous, with ATT_MOE_GIVEN. Ids are -1 .. experts-1; -1 is no expert,
     * and its weight is ignored. A token may name an expert twice. Another id is ATT_E_DATA on
     * the CPU; on a GPU it is taken as -1, and `counts` says how many there were. Ids of masked
     * tokens are ignored. */
    const int32_t *given_ids;
    const float *given_weights;
    void *y;
    /* (tokens, k), contiguous: where the tokens were routed. The weights are those used, after
     * renormalisation and scaling. Where there is no expert, the id is -1 and the weight 0. */
    int32_t *ids;
    float *weights;
    int32_t
        *counts; /* experts + 1: tokens of each expert, then given ids that were out of range */
    att_launch *launch;    /* optional: filled by the kernel that runs */
    size_t workspace_size; /* optional: bytes at workspace, checked where it is not 0 */
} att_moe_args;

/* Fill `problem`: size, the shapes given, ATT_MOE_SWIGLU with the gate concatenated,
 * ATT_MOE_SOFTMAX_TOPK with ATT_MOE_RENORMALISE, float32 logits, dtype_y = dtype_bias = dtype,
 * all experts local, no groups, scaling 1, alpha 1.702, limit 7, contiguous arrays. After
 * changing gate, activation, flags or local_experts, call att_moe_problem_layout() to set the
 * strides. Does not check; att_moe_plan_create() does. Thread: safe. */
ATT_API void att_moe_problem_init_sized(att_moe_problem *problem, size_t size, int64_t tokens,
                                        int64_t hidden, int64_t inner, int64_t experts,
                                        int64_t experts_per_token, att_dtype dtype);
#define att_moe_problem_init(problem, ...)                                                     \
    att_moe_problem_init_sized(problem, sizeof(att_moe_problem), __VA_ARGS__)

/* Set every stride for contiguous arrays of the problem's shapes, gate, activation and flags.
 * Thread: safe. */
ATT_API void att_moe_problem_layout(att_moe_problem *problem);

/* These behave like att_plan_create(), att_plan_run() and att_context_explain(). Use
 * att_plan_destroy(), _workspace(), _kernel() and _explain() for these plans too. */
ATT_API att_status att_moe_plan_create(att_plan **out, att_context *ctx,
                                       const att_moe_problem *problem);
ATT_API att_status att_moe_run(const att_plan *plan, const att_moe_args *args, void *workspace,
                               void *stream);
ATT_API att_status att_moe_explain(att_context *ctx, const att_moe_problem *problem, char *buf,
                                   size_t n);

/* -------------------------------------------------------------------- query */

/* Write the chosen kernel and, for every other kernel of the context's device, the field that
 * ruled it out, one per line.
 *
 * n        bytes at buf; ATT_EXPLAIN_MAX always suffices, a shorter text is cut and terminated
 * Thread   safe
 * Errors   ATT_E_ARG */
#define ATT_EXPLAIN_MAX 65536
ATT_API att_status att_plan_explain(const att_plan *plan, char *buf, size_t n);

/* The same text for a problem, whether or not a kernel serves it.
 *
 * Thread   safe
 * Errors   as att_plan_create(), except ATT_E_UNSUPPORTED: the call succeeds and the text
 *          explains why */
ATT_API att_status att_context_explain(att_context *ctx, const att_problem *problem, char *buf,
                                       size_t n);

/* Where a kernel's machine code comes from. */
typedef enum att_origin {
    ATT_FROM_NOWHERE = 0, /* not in the library for this GPU, and no compiler is found here */
    ATT_FROM_LIBRARY = 1, /* machine code in the library */
    ATT_FROM_PTX = 2,     /* PTX in the library, compiled by the driver when a plan is made */
    ATT_FROM_SOURCE = 3   /* compiled by NVRTC when a plan is made, then kept in the cache */
} att_origin;

typedef struct att_kernel_info {
    size_t size;         /* sizeof(att_kernel_info), set by the caller */
    const char *id;      /* lives as long as the library, that of a user's row as its context */
    const char *summary; /* one line */
    att_device device;
    att_isa isa;   /* CPU: the instruction set it needs */
    int available; /* 1 if this context can run it */

    /* CPU: "fwd", "decode", "backward", "merge", "moe"; GPU: "plain", "small", "split",
     * "general", "decode", "combine", "mask", "step", "rung" */
    const char *role;
    att_origin origin;  /* on this context's GPU; of a CPU context, on the first of `targets` */
    int32_t rung;       /* 1: a step of the ladder, which only ATT_ALLOW_SLOW lets serve */
    int32_t targets[8]; /* GPU: compute capabilities it is written for, 80 and up, then zeros */
    att_dtype dtype;    /* GPU: of Q, K and V; 0: any */
    int32_t d_qk, d_v;  /* the largest head dimensions served; 0: moe, which has none */
    int32_t tile_m, tile_n, stages, warps; /* GPU: of a block */
    int32_t user; /* 1: a row of the context's own (rows, rows_file), not built in */
    /* 1: no complete evidence on this GPU's architecture (of a CPU context: on any); only
     * ATT_ALLOW_UNATTESTED lets it serve */
    int32_t unattested;
    const char *operation; /* what it computes: "attention", "backward", "merge", "moe" */
} att_kernel_info;

/* The kernels built into the library: how many, and the i-th. The user's rows of a context
 * follow them: att_context_kernel_count() counts both. Thread: safe. Errors: ATT_E_ARG,
 * ATT_E_STRUCT. */
ATT_API size_t att_kernel_count(void);
ATT_API size_t att_context_kernel_count(const att_context *ctx);
ATT_API att_status att_kernel_query(const att_context *ctx, size_t i, att_kernel_info *info);

#ifdef __cplusplus
}
#endif

#endif /* ATTEST_H */
