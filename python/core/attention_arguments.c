/* attention_arguments.c: the arguments of attention(), explain() and describe(). */
#include "python/core/problem_build.h"

const char *const argument_names[ARG_COUNT] = {"q",
                                               "k",
                                               "v",
                                               "causal",
                                               "scale",
                                               "window",
                                               "align",
                                               "softcap",
                                               "alibi",
                                               "bias",
                                               "sinks",
                                               "cu_seqlens_q",
                                               "cu_seqlens_k",
                                               "max_seqlen_q",
                                               "max_seqlen_k",
                                               "lens_k",
                                               "starts_k",
                                               "q_offset",
                                               "k_offset",
                                               "page_table",
                                               "return_lse",
                                               "out",
                                               "layout"};

static PyObject *interned[ARG_COUNT];

const argument_table attention_arguments = {argument_names, interned, ARG_COUNT, ARG_V + 1,
                                            "q, k and v"};
