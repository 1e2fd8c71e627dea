/* extension.c: the extension attest._core. Single-phase initialisation: its caches are per
 * process, under one GIL. */
#include "attest.h"
#include "python/core/attention.h"
#include "python/core/backward_call.h"
#include "python/core/failure.h"
#include "python/core/jax_call.h"
#include "python/core/launch_record.h"
#include "python/core/merge_call.h"
#include "python/core/moe_call.h"
#include "python/core/plan_calls.h"
#include "python/core/queries.h"
#include "python/core/sdpa.h"

#define ARGUMENTS                                                                              \
    "(q, k, v, *, causal=None, scale=None, window=None, align=None, softcap=None, "            \
    "alibi=None, bias=None, "                                                                  \
    "sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, " \
    "lens_k=None, starts_k=None, q_offset=None, k_offset=None, "                               \
    "page_table=None, return_lse=False, out=None, layout='bhsd')\n--\n\n"

PyDoc_STRVAR(
    attention_doc,
    "attention" ARGUMENTS
    "Attention of q over k and v, in the caller's framework, without a copy.\n\n"
    "q, k, v        arrays that offer DLPack (NumPy, PyTorch, CuPy, JAX …), float32, float16 "
    "or bfloat16, on one\n"
    "               device: (batch, heads, rows, d), or as `layout` says. k and v may have "
    "fewer heads, d of v may\n"
    "               differ. The last axis must be contiguous; the others may have any stride.\n"
    "causal         True if q and k have the same number of rows; else 'top-left' or "
    "'bottom-right'\n"
    "scale          of the scores; 1/sqrt(d) by default\n"
    "window         (left, right): keys seen beside the diagonal, None for no limit\n"
    "align          where the diagonal of a window or of ALiBi lies without causal: "
    "'top-left', 'bottom-right'\n"
    "softcap        scores become softcap * tanh(score / softcap)\n"
    "alibi          slopes, float32, (heads,) or (batch, heads)\n"
    "bias           added to the scores; or bool, False hides. Broadcasts to (batch, heads, "
    "rows of q, of k)\n"
    "sinks          one logit per head that takes weight but adds nothing to O, float32, "
    "(heads,)\n"
    "cu_seqlens_q   int32, (batch + 1,): q is packed, (total rows, heads, d); likewise "
    "cu_seqlens_k for k and v\n"
    "max_seqlen_q   the longest of them, and max_seqlen_k; optional on the CPU\n"
    "lens_k         int32, (batch,): keys in use of each batch entry\n"
    "starts_k       int32, (batch,): the first key in use (left padding); rows that see none "
    "give 0\n"
    "q_offset       the position of the first row in a longer sequence, and k_offset of the "
    "first "
    "key, for causal,\n"
    "               window and alibi: a number, or int32, (batch,)\n"
    "page_table     int32, (batch, pages): k and v are pages, (pages, heads, rows of a page, "
    "d)\n"
    "return_lse     also return the log-sum-exp of each row, float32, (batch, heads, rows)\n"
    "out            an array for the answer\n"
    "layout         'bhsd' or 'bshd': (batch, rows, heads, d)\n\n"
    "On a GPU the work is put on the framework's current stream, and the call returns before "
    "it is done. Raises\n"
    "TypeError and ValueError that name the argument, UnsupportedError where no kernel serves, "
    "Error where the\n"
    "machine refuses.");

PyDoc_STRVAR(
    explain_doc,
    "explain" ARGUMENTS
    "Which kernel would serve this call of attention(), and why each other would not.");

#define BACKWARD_ARGUMENTS                                                                     \
    "(q, k, v, o, lse, d_o, *, causal=None, scale=None, window=None, align=None, "             \
    "softcap=None, alibi=None, bias=None, sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, "  \
    "max_seqlen_q=None, max_seqlen_k=None, lens_k=None, starts_k=None, q_offset=None, "        \
    "k_offset=None, page_table=None, "                                                         \
    "layout='bhsd', d_bias=False, d_sinks=False, d_alibi=False, grad_dtype=None, "             \
    "out=None)\n--\n\n"

PyDoc_STRVAR(
    backward_doc,
    "backward" BACKWARD_ARGUMENTS
    "The gradients of attention(): (d_q, d_k, d_v), and those of d_bias, d_sinks and d_alibi "
    "that are asked for.\n\n"
    "q, k, v        and all options as attention() had them\n"
    "o, lse         what attention(..., return_lse=True) returned\n"
    "d_o            the gradient of o: of its shape and dtype\n"
    "d_bias         True: also the gradient of `bias`, summed over the axes that it is "
    "broadcast along\n"
    "d_sinks        True: also that of `sinks`\n"
    "d_alibi        True: also that of `alibi`\n"
    "grad_dtype     of d_q, d_k, d_v and d_bias: that of the inputs, or 'float32'\n"
    "out            arrays for d_q, d_k and d_v\n\n"
    "The same bits from run to run. Rows that see no key, and keys that no row sees, have "
    "gradients of 0. Pages\n"
    "are refused. Raises as attention() does.");

PyDoc_STRVAR(explain_backward_doc,
             "explain_backward" BACKWARD_ARGUMENTS
             "Which kernel would serve this call of backward(), and why each other would not.");

PyDoc_STRVAR(
    merge_doc,
    "merge(parts_o, parts_lse, *, layout='bhsd', out=None, return_lse=True)\n--\n\n"
    "Partial results of the same query rows over different keys, merged into one: (o, lse).\n\n"
    "parts_o        a list of arrays as attention() returns them: float32, float16 or "
    "bfloat16, "
    "(batch, heads, rows,\n"
    "               d) or as `layout` says, or packed, (total rows, heads, d). Or one array "
    "with the parts along an\n"
    "               axis before these. The last axis must be contiguous; the others may have "
    "any stride.\n"
    "parts_lse      their log-sum-exp as attention() returns it with return_lse=True: float32, "
    "(batch, heads, rows)\n"
    "               or (heads, total rows); a list or one array\n"
    "layout         'bhsd' or 'bshd': (batch, rows, heads, d)\n"
    "out            an array for o; its dtype may be another of the three\n"
    "return_lse     False: return o alone\n\n"
    "Any number of parts, all with the same number of rows. A part whose log-sum-exp is -inf "
    "saw no key and "
    "is ignored,\n"
    "whatever its o holds. On a GPU the work is put on the framework's current stream. Raises "
    "as attention() does.");

PyDoc_STRVAR(
    moe_doc,
    "moe(x, w1, w2, *, logits=None, ids=None, weights=None, w3=None, b1=None, b2=None, "
    "b3=None, "
    "correction=None,\n"
    "    mask=None, top_k=None, activation='swiglu', routing=None, renormalise=None, "
    "scaling=1.0, alpha=None,\n"
    "    limit=None, groups=1, groups_kept=1, interleaved=False, transposed=False, "
    "experts=None, "
    "first_expert=0,\n"
    "    out=None, return_routing=False)\n--\n\n"
    "A mixture of experts in one call: y (tokens, hidden), the weighted sum of what the "
    "experts "
    "of each token make of it.\n\n"
    "x              (tokens, hidden): float32, float16 or bfloat16, as the weights\n"
    "w1             (experts, 2 inner, hidden): the rows of the gate, then those of the other "
    "factor; with\n"
    "               interleaved=True by turns; (experts, inner, hidden) with w3 or an "
    "activation "
    "without a gate\n"
    "w2             (experts, hidden, inner)\n"
    "w3             the rows of the other factor, if w1 has only those of the gate\n"
    "b1, b2, b3     biases of w1, w2 and w3: (experts, rows)\n"
    "transposed     True: w1 and w3 are (experts, hidden, rows), w2 (experts, inner, hidden)\n"
    "logits         the router's, (tokens, experts): float32 or the dtype of x\n"
    "top_k          how many experts a token has\n"
    "routing        'softmax' over all experts, then the largest (the default; Mixtral, "
    "Qwen3); 'topk', then softmax\n"
    "               over these (GPT-OSS); 'sigmoid' (DeepSeek-V3)\n"
    "renormalise    weights of a token are divided by their sum (the default)\n"
    "scaling        weights are multiplied by it\n"
    "correction     (experts,), float32, added to the sigmoids that select\n"
    "groups         of experts, of which the groups_kept best are considered; with 'sigmoid'\n"
    "ids, weights   in place of logits, top_k, routing and renormalise: (tokens, experts per "
    "token), int32 and\n"
    "               float32; id -1: no expert\n"
    "mask           (tokens,), bool; False: y is 0\n"
    "activation     'swiglu', 'geglu', 'geglu-tanh', 'swiglu-clamped' (with alpha, by default "
    "1.702, and limit, 7);\n"
    "               without a gate 'relu2', 'silu', 'gelu', 'gelu-tanh'\n"
    "experts        how many there are, where the weights have only those from first_expert "
    "on: the others add nothing\n"
    "out            an array for y; its dtype may be float32\n"
    "return_routing True: return (y, ids, weights, counts)\n\n"
    "The same bits from run to run, whatever other tokens hold. Raises as attention() does.");

/* A call makes no tuple and no dictionary. In the limited API from 3.10 on; 3.9 has it with the
 * same number and calling convention. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

static PyMethodDef methods[] = {
    {"attention", (PyCFunction)(void (*)(void))attention, METH_FASTCALL | METH_KEYWORDS,
     attention_doc},
    {"explain", (PyCFunction)(void (*)(void))explain, METH_FASTCALL | METH_KEYWORDS,
     explain_doc},
    {"backward", (PyCFunction)(void (*)(void))backward, METH_FASTCALL | METH_KEYWORDS,
     backward_doc},
    {"explain_backward", (PyCFunction)(void (*)(void))explain_backward,
     METH_FASTCALL | METH_KEYWORDS, explain_backward_doc},
    {"describe_backward", (PyCFunction)(void (*)(void))describe_backward,
     METH_FASTCALL | METH_KEYWORDS,
     "backward() of arrays given as (dtype, device, shape): shapes and dtypes of the "
     "gradients, the problem."},
    {"merge", (PyCFunction)(void (*)(void))merge, METH_FASTCALL | METH_KEYWORDS, merge_doc},
    {"moe", (PyCFunction)(void (*)(void))moe, METH_FASTCALL | METH_KEYWORDS, moe_doc},
    {"describe", (PyCFunction)(void (*)(void))describe, METH_FASTCALL | METH_KEYWORDS,
     "attention() of arrays given as (dtype, device, shape): shapes of o and LSE, the "
     "problem."},
    {"describe_merge", describe_merge, METH_VARARGS,
     "(parts, batch, heads, rows, d): the problem of a merge of contiguous parts in float32."},
    {"describe_moe", (PyCFunction)(void (*)(void))describe_moe, METH_FASTCALL | METH_KEYWORDS,
     "moe() of arrays given as (dtype, device, shape): shapes and dtypes of y, ids, weights "
     "and counts, the problem."},
    {"jax_handlers", jax_handlers, METH_NOARGS,
     "XLA's foreign functions by operation and platform."},
    {"jax_last_launch", jax_last_launch, METH_NOARGS, "The latest launch in a program of XLA."},
    {"last_launch", last_launch, METH_NOARGS,
     "The latest launch of this thread as a tuple, or None."},
    {"devices", devices, METH_NOARGS, "Devices as tuples."},
    {"kernels", kernels, METH_VARARGS, "Kernels as tuples."},
    {"cache_info", cache_info, METH_NOARGS, "(hits, misses, plans, limit) of the plan cache."},
    {"run_seconds", (PyCFunction)(void (*)(void))run_seconds, METH_FASTCALL | METH_KEYWORDS,
     "(times, ...): what a run of attention() with the other arguments costs a caller in C."},
    {"sdpa", (PyCFunction)(void (*)(void))sdpa, METH_FASTCALL,
     "attention() of plain PyTorch tensors in its common case, else None."},
    {"sdpa_backward", (PyCFunction)(void (*)(void))sdpa_backward, METH_FASTCALL,
     "The gradients of that case, else None."},
    {"sdpa_setup", sdpa_setup, METH_VARARGS,
     "PyTorch's tensor type, and who may watch a call."},
    {"set_threads", set_threads, METH_O, "Threads of calls on the CPU from now on."},
    {"cache_clear", cache_clear, METH_NOARGS, "Forget every plan."},
    {NULL, NULL, 0, NULL}};

/* The same name as in `attest bench`: results of this package and of the program can be
 * compared. */
#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "attest._core",
    .m_doc = "libattest for Python; see the package attest.", .m_size = -1,
    .m_methods = methods};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && (failure_setup(module) ||
                   PyModule_AddStringConstant(module, "version", att_version()) ||
                   PyModule_AddStringConstant(module, "compiler", COMPILER))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
