/* spec.h: a problem as one line of text, and back.
 *
 *     b2h8s512d64                         batch 2, 8 heads, 512 rows and keys, head dim 64
 *     b2h8hkv2s1sk4096d192dv128,bf16      GQA, decode, d_v other than d_qk, bfloat16
 *     b1h4s128sk96d64,causal=bottom-right,window=16:0,softcap=30,lse
 *
 *     merge:n4b2h8s512d64,bf16            another operation, after its prefix:
 *                                         4 partial results merged
 *     backward:b2h8s512d64,bf16,causal    the gradients of an attention
 *     moe:t4096e128k8h2048i768,bf16       a mixture of experts
 *
 * Attention. Shape keys: b, h (or hq), hkv, s (or sq), sk, d, dv. hkv, sk and dv default to h,
 * s and d. Modifiers, each after a comma:
 *     fp16 bf16 f32            dtype of Q, K, V (fp16); o=fp16|bf16|f32  of O (the same)
 *     causal                   if seq_q = seq_k;  causal=top-left|bottom-right  always
 *     window=L:R               keys visible left and right of the diagonal, -1 for no limit
 *     align=top-left|bottom-right        the diagonal of window and alibi without causal
 *     scale=X  softcap=X  alibi  alibi=b (slopes per batch entry)  sinks  lse
 *     bias  bias=TYPE  bias=TYPE:bhqk    TYPE f32, fp16, bf16 or bool; a 1 in place of one of the
 *                              four letters broadcasts that dimension: bias=fp16:1h1k
 *     biasfill=normal|hide|hide-rows|+inf   contents of the bias: hide has hidden keys in every
 *                              row, hide-rows also whole rows, +inf one +inf in every
 *                              seventh row
 *     biasfill=clear|tenth|padding|padded-causal|prefix|documents|blocks   what it hides:
 *                              nothing, a tenth of the keys, or what the masks of models hide
 *                              (mask_patterns.c)
 *     biascol=N                elements from one key of the bias to the next (1)
 *     varlen                   cu_seqlens for queries and keys, lengths drawn from lenseed
 *     lens=5:0:17              the same with given lengths; cuq[=..], cuk[=..]: one side only
 *     lensk  lensk=5:0:17      a K/V cache with a number of used keys per batch entry
 *     startsk  startsk=5:0:17  the first used key per batch entry (left padding)
 *     qoffset=N  koffset=N     positions of the first row and key in a longer sequence (0)
 *     qoffsets[=5:0:17]  koffsets[=..]   the same per batch entry, added to them
 *     lenseed=N                draws other lengths, starts and offsets (0)
 *     paged=N                  K and V in permuted pages of N keys, the first pages shared
 *     layout=bshd|bhsd|packed  strides (bshd)
 *     pad=N                    N elements of padding after every row of all tensors, NaN inside
 *     offset=N                 base pointers N elements past an aligned address
 *     bcast=b|h|bh             K and V with stride 0 along batch, heads or both
 *     absurd                   a huge stride in every dimension of size 1
 *     data=NAME                contents of the tensors, see lab_data
 *
 * Merge. Shape keys: n (parts), b, h, s, d. Modifiers: fp16 bf16 f32, o=TYPE, nolse,
 *     layout=bshd|bhsd, pad=N, offset=N, absurd,
 *     data=normal|empty|equal|inf|nan|huge   log-sums from N(0, 64); empty: -inf in some parts
 *                              of some rows, and in all parts of some; equal; +inf or NaN in
 *                              some; O near the type's limit
 *
 * Backward: everything that attention has; lse is always read. Its own modifiers:
 *     grad=f32                 dtype of the gradients of Q, K and V (that of Q); makes that of
 *                              the bias f32 too
 *     dbias  dsinks  dalibi    gradients to compute besides those of Q, K and V
 *     do=normal|tiny|huge|zero contents of the gradient of O, see lab_d_o
 *
 * Moe. Shape keys: t (tokens), e (experts), k (experts per token), h (hidden), i (inner).
 * Modifiers:
 *     fp16 bf16 f32            dtype of x and the weights (bf16); y=TYPE of y, bias=TYPE of b1
 *                              and b2 (the same); logits=TYPE (f32)
 *     act=swiglu|geglu|geglu-tanh|swiglu-clamped|relu2|silu|gelu|gelu-tanh    (swiglu);
 *                              alpha=X  limit=X of swiglu-clamped
 *     gate=concatenated|apart|interleaved  transposed   how the weights are stored
 *     route=softmax|topk|sigmoid|given     softmax then top-k (softmax), top-k then softmax,
 *                              sigmoid, given ids and weights
 *     norm  nonorm             weights divided by their sum (norm, unless they are given);
 *                              scale=X  multiplied by it
 *     correction  groups=N:M   for sigmoid: correction per expert; N groups of which M stay
 *     b1  b2  mask             biases; every fourth token masked
 *     range=A:N                this call has the N experts from A on
 *     ids  weights  counts     outputs besides y
 *     pad=N  offset=N  absurd  as for attention; bcast: all experts share one set of weights;
 *                              far: 2^31 elements from expert to expert
 *     load=even|zipf|one|few   how tokens are spread over experts: evenly, by Zipf's law, one
 *                              expert in every token, the same k in all
 *     data=NAME                contents of the tensors, see lab_moe_data
 *
 * A line defines the problem completely, including lengths; the contents of the tensors also
 * depend on the seed given to lab_tensors_create(). Thread: every function here is safe. */
#ifndef LAB_SPEC_H
#define LAB_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attention/ref/oracle.h"
#include "attest.h"
#include "lab/base/message.h"

enum { LAB_LENS_MAX = 64, LAB_SPEC_MAX = 2048 };

/* The most sequences with drawn lengths, and the largest size: sums of sizes stay far from
 * 2^63. */
enum { LAB_DRAWN_MAX = 1 << 20 };
#define LAB_SIZE_MAX (INT64_C(1) << 40)

typedef enum lab_layout { LAB_BSHD, LAB_BHSD, LAB_PACKED } lab_layout;

typedef enum lab_data {
    LAB_DATA_NORMAL,     /* normal: N(0, 1) everywhere */
    LAB_DATA_HUGE,       /* huge: logits to +-133120 and above, beyond the range of float16 */
    LAB_DATA_ONEHOT,     /* onehot: one key has all the weight */
    LAB_DATA_EQUAL,      /* equal: equal logits, O is the mean of V */
    LAB_DATA_DENORMAL,   /* denormal: subnormals of the dtype in Q, K and V */
    LAB_DATA_ZERO,       /* zero: +0 and -0 */
    LAB_DATA_RAMP,       /* ramp: logits grow with the key, the maximum arrives last */
    LAB_DATA_SHIFT,      /* shift: K has a large common offset, which does not change O */
    LAB_DATA_NAN_MASKED, /* nan-masked: NaN and Inf in every K and V row that no query row sees */
    LAB_DATA_HUGE_MASKED, /* huge-masked: every K and V row that no query row sees is far larger than the others */
    LAB_DATA_NAN_VISIBLE, /* nan-visible: one NaN in K and one in V; they reach every row that
                           * sees them */
    LAB_DATA_INF_V,       /* inf-v: a few +Inf and -Inf in V */
    LAB_DATA_OVERFLOW,    /* overflow: every third row's logits are beyond the range of float32,
                           * so that its LSE is +inf; not for float16, whose products fit in
                           * float32 */
    LAB_DATA_SPARSE, /* sparse: zero except near both ends of K and V, for tensors larger than
                      * RAM */
    LAB_DATA_COUNT
} lab_data;

typedef enum lab_bias_fill {
    LAB_BIAS_NORMAL,
    LAB_BIAS_HIDE,
    LAB_BIAS_HIDE_ROWS,
    LAB_BIAS_POSITIVE_INF,
    LAB_BIAS_CLEAR,
    LAB_BIAS_TENTH,
    LAB_BIAS_PADDING,       /* after the keys */
    LAB_BIAS_PADDED_CAUSAL, /* before the keys, and causal */
    LAB_BIAS_PREFIX,        /* causal, but all rows see the first third */
    LAB_BIAS_DOCUMENTS,     /* causal, eight per sequence */
    LAB_BIAS_BLOCKS,        /* of 128 rows and keys: the diagonal and a third of the others are
                             * visible */
    LAB_BIAS_FILL_COUNT
} lab_bias_fill;

/* Contents of the gradient of O, for backward. */
typedef enum lab_d_o {
    LAB_D_O_NORMAL, /* N(0, 1) */
    LAB_D_O_TINY,   /* so small that the products of a 16-bit type underflow */
    LAB_D_O_HUGE,   /* as large as keeps the gradients finite */
    LAB_D_O_ZERO    /* +0 and -0 */
} lab_d_o;

/* Lengths of the sequences of one side: none, drawn from lenseed, or listed. */
typedef enum lab_lens_mode { LAB_LENS_NONE, LAB_LENS_DRAWN, LAB_LENS_LISTED } lab_lens_mode;

typedef struct lab_lens {
    lab_lens_mode mode;
    int count;
    int32_t list[LAB_LENS_MAX];
} lab_lens;

struct lab_operation;

/* Contents of the tensors of a merge. */
typedef enum lab_merge_data {
    LAB_MERGE_NORMAL,
    LAB_MERGE_EMPTY,
    LAB_MERGE_EQUAL,
    LAB_MERGE_INF,
    LAB_MERGE_NAN,
    LAB_MERGE_HUGE
} lab_merge_data;

typedef struct lab_merge_spec {
    att_merge_problem problem;
    att_dtype dtype_o; /* as given; 0: the same as the dtype */
    lab_layout layout;
    int64_t pad, offset;
    bool absurd_strides;
    lab_merge_data data;
} lab_merge_spec;

/* Contents of the tensors of a mixture of experts. */
typedef enum lab_moe_data {
    LAB_MOE_NORMAL, /* normal: x and logits N(0, 1), weights such that every product is about
                     * that */
    LAB_MOE_EQUAL,  /* equal: all logits of a token are equal */
    LAB_MOE_TIES,   /* ties: logits -1, -0, 0 or 1 */
    LAB_MOE_INF,    /* inf: some logits are infinite, in some tokens all of them */
    LAB_MOE_NAN,    /* nan: NaN in x of some tokens, in some logits of others, in all logits of
                     * some */
    LAB_MOE_LARGE,  /* large: x 32 times as large, so that activations saturate */
    LAB_MOE_ZERO,   /* zero: x is 0 and -0 */
    LAB_MOE_DENORMAL, /* denormal: x is subnormal */
    LAB_MOE_HOLES /* holes: some of the given ids are -1, with weights of NaN, and some name an
                   * expert twice */
} lab_moe_data;

/* How tokens are spread over experts. */
typedef enum lab_moe_load {
    LAB_MOE_EVEN,
    LAB_MOE_ZIPF,
    LAB_MOE_ONE, /* one expert gets every token; the other choices vary */
    LAB_MOE_FEW  /* all tokens go to the same k */
} lab_moe_load;

typedef struct lab_moe_spec {
    att_moe_problem problem;
    att_dtype dtype_y, dtype_bias, dtype_logits; /* as given; 0: the default */
    int64_t first_expert, local_experts;         /* as given; local 0: all */
    bool unnormalised;
    int64_t pad, offset;
    bool absurd_strides, broadcast, far;
    lab_moe_data data;
    lab_moe_load load;
} lab_moe_spec;

/* A problem of one operation; only that operation's member is used. */
typedef struct lab_spec {
    const struct lab_operation *operation;
    union {
        lab_merge_spec merge;
        lab_moe_spec moe;
        struct { /* attention, and its backward */
            att_problem
                problem; /* complete once lab_spec_finish() has run: strides, totals, page counts */
            int64_t heads_kv, seq_k, d_v; /* as given; -1: the same as heads_q, seq_q, d_qk */
            att_dtype dtype_o;            /* as given; 0: the same as the dtype */
            bool scale_given;
            bool causal_plain; /* `causal` without an alignment */
            bool alibi_per_batch;
            bool bias_broadcast[4]; /* batch, head, row, col */
            lab_bias_fill bias_fill;
            int64_t bias_col; /* stride of the bias from key to key */
            lab_lens cu_q, cu_k, lens_k, starts_k, q_offsets, k_offsets;
            uint64_t lens_seed;
            lab_layout layout;
            int64_t pad, offset;
            bool broadcast_batch, broadcast_heads;
            bool absurd_strides;
            lab_data data;
            int64_t k_offset,
                v_offset; /* packed: where K and V start in the one buffer, in elements */
            att_dtype dtype_grad; /* of backward, as given; 0: the same as the dtype */
            lab_d_o d_o;
        };
    };
} lab_spec;

/* An empty spec of attention: b1 h1 s1 d64, fp16, nothing else. */
void lab_spec_init(lab_spec *spec);

/* Set one shape key or modifier by its name above: ("hkv", "2"), ("causal", NULL), ("window",
 * "4:0"). The long flags of the program go through here too, so it also takes "dtype", `,` for
 * `:` in lists, and - as a value of causal - "none". */
bool lab_spec_set(lab_spec *spec, const char *name, const char *value, lab_message *why);

/* Apply the text on top of the current contents of the spec; the prefix of another operation
 * starts from an empty spec. */
bool lab_spec_read(lab_spec *spec, const char *text, lab_message *why);

/* Fill in the derived fields. Fails if the spec contradicts itself or leaves a choice open that
 * has no default; unsupported problems are left for the library to refuse. May be called again
 * after further changes. */
bool lab_spec_finish(lab_spec *spec, lab_message *why);

/* lab_spec_init, lab_spec_read, lab_spec_finish. */
bool lab_spec_parse(lab_spec *spec, const char *text, lab_message *why);

/* The canonical line; parsing it gives the same spec. LAB_SPEC_MAX bytes always suffice. */
void lab_spec_print(const lab_spec *spec, char *buf, size_t n);

/* Rows and keys of batch entry b, and the keys that its cu_seqlens_k reserves for it. The last
 * two differ if a packed cache is not full. Then the first key in use, which may lie past the
 * keys. */
int64_t lab_spec_len_q(const lab_spec *spec, int64_t b);
int64_t lab_spec_len_k(const lab_spec *spec, int64_t b);
int64_t lab_spec_room_k(const lab_spec *spec, int64_t b);
int64_t lab_spec_start_k(const lab_spec *spec, int64_t b);

/* The position of the first row or key that batch entry b adds to the problem's. */
int64_t lab_spec_q_offset(const lab_spec *spec, int64_t b);
int64_t lab_spec_k_offset(const lab_spec *spec, int64_t b);

/* All of these, as the oracle takes them. */
att_ref_sequence lab_spec_sequence(const lab_spec *spec, int64_t b);

/* Whether sequences may differ in length, start or position. */
bool lab_spec_varies(const lab_spec *spec);

/* Whether there is neither a query row nor a key, for any batch and heads. */
bool lab_spec_is_empty(const lab_spec *spec);

/* The number of (row, key) pairs of a sequence that causal mask and window leave visible. */
double lab_visible_pairs(const att_problem *p, const att_ref_sequence *s);

/* Work of the problem: 2 operations per multiply-add over the visible keys, both products;
 * bytes are Q, K and V read once and O written once. */
double lab_spec_flops(const lab_spec *spec);
double lab_spec_bytes(const lab_spec *spec);

/* "attention", "backward", "merge", "moe". */
const char *lab_spec_operation(const lab_spec *spec);

#endif
