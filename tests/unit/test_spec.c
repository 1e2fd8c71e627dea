/* test_spec.c: problems as text: reading, printing, derived fields, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/problem/lab_operation.h"
#include "lab/problem/spec.h"
#include "lab/problem/suite.h"
#include "attention/ref/oracle.h"
#include "tests/support/check.h"
#include "tests/support/parsed.h"

static void assert_refused(const char *text, const char *word) {
    lab_spec spec;
    lab_message why;
    if (lab_spec_parse(&spec, text, &why))
        fail_msg("%s was read", text);
    if (!strstr(why.text, word))
        fail_msg("%s: '%s' does not hold '%s'", text, why.text, word);
}

static void assert_prints(const char *text, const char *canonical) {
    const lab_spec spec = parsed(text);
    char line[LAB_SPEC_MAX];
    lab_spec_print(&spec, line, sizeof line);
    assert_string_equal(line, canonical);
}

static void test_read__shape__fills_problem(void **state) {
    (void)state;
    const lab_spec spec = parsed("b2h8hkv2s5sk4096d192dv128,bf16,o=f32");
    const att_problem *p = &spec.problem;
    assert_int_equal(p->size, sizeof *p);
    assert_int_equal(p->batch, 2);
    assert_int_equal(p->heads_q, 8);
    assert_int_equal(p->heads_kv, 2);
    assert_int_equal(p->seq_q, 5);
    assert_int_equal(p->seq_k, 4096);
    assert_int_equal(p->d_qk, 192);
    assert_int_equal(p->d_v, 128);
    assert_int_equal(p->dtype, ATT_BF16);
    assert_int_equal(p->dtype_o, ATT_F32);
}

static void test_read__short_shape__defaults_follow(void **state) {
    (void)state;
    const lab_spec spec = parsed("b2h8s512d64");
    att_problem expected;
    att_problem_init(&expected, 2, 8, 8, 512, 512, 64, 64, ATT_F16);
    assert_int_equal(spec.problem.heads_kv, 8);
    assert_int_equal(spec.problem.seq_k, 512);
    assert_int_equal(spec.problem.d_v, 64);
    assert_int_equal(spec.problem.dtype_o, ATT_F16);
    assert_true(spec.problem.scale == expected.scale);
    assert_memory_equal(&spec.problem.q, &expected.q, sizeof expected.q);
    assert_memory_equal(&spec.problem.k, &expected.k, sizeof expected.k);
    assert_memory_equal(&spec.problem.o, &expected.o, sizeof expected.o);
}

static void test_read__bhsd__strides_of_the_library(void **state) {
    (void)state;
    const lab_spec spec = parsed("b2h8hkv2s51sk70d64dv32,layout=bhsd,lse");
    att_problem expected;
    att_problem_init(&expected, 2, 8, 2, 51, 70, 64, 32, ATT_F16);
    att_problem_layout_bhsd(&expected);
    assert_memory_equal(&spec.problem.q, &expected.q, sizeof expected.q);
    assert_memory_equal(&spec.problem.v, &expected.v, sizeof expected.v);
    assert_memory_equal(&spec.problem.o, &expected.o, sizeof expected.o);
    assert_memory_equal(&spec.problem.lse, &expected.lse, sizeof expected.lse);
}

static void test_read__packed__offsets_and_strides_of_the_library(void **state) {
    (void)state;
    const lab_spec spec = parsed("b2h8hkv2s51d64dv32,layout=packed");
    att_problem expected;
    int64_t k_offset, v_offset;
    att_problem_init(&expected, 2, 8, 2, 51, 51, 64, 32, ATT_F16);
    att_problem_layout_packed(&expected, &k_offset, &v_offset);
    assert_int_equal(spec.k_offset, k_offset);
    assert_int_equal(spec.v_offset, v_offset);
    assert_memory_equal(&spec.problem.k, &expected.k, sizeof expected.k);
    assert_memory_equal(&spec.problem.v, &expected.v, sizeof expected.v);
}

static void test_read__modifiers__fill_problem(void **state) {
    (void)state;
    const lab_spec spec =
        parsed("b3h4s7sk9d8,causal=bottom-right,window=4:-1,softcap=30,alibi=b,"
               "sinks,lse,scale=-0.5,bias=bool:b1q1,lensk=1:0:9,startsk=0:4:7,qoffset=70,"
               "koffset=60,qoffsets=0:9:4,koffsets=1:0:30,paged=4");
    const att_problem *p = &spec.problem;
    assert_int_equal(p->causal, ATT_CAUSAL_BOTTOM_RIGHT);
    assert_int_equal(p->window_left, 4);
    assert_int_equal(p->window_right, -1);
    assert_true(p->softcap == 30.0f && p->scale == -0.5f);
    assert_int_equal(p->alibi_stride_batch, 4);
    assert_int_equal(p->bias_dtype, ATT_BOOL8);
    assert_int_equal(p->bias.head, 0);
    assert_int_equal(p->bias.col, 0);
    assert_int_not_equal(p->bias.batch, 0);
    assert_int_equal(p->features, ATT_ALIBI | ATT_SINKS | ATT_LSE | ATT_BIAS | ATT_LENS_K |
                                      ATT_PAGED | ATT_STARTS_K | ATT_Q_OFFSETS | ATT_K_OFFSETS);
    assert_int_equal(p->page_size, 4);
    assert_int_equal(lab_spec_len_k(&spec, 2), 9);
    assert_int_equal(lab_spec_start_k(&spec, 0), 0);
    assert_int_equal(lab_spec_start_k(&spec, 2), 7);
    assert_int_equal(lab_spec_q_offset(&spec, 1), 9);
    assert_int_equal(lab_spec_k_offset(&spec, 2), 30);
    assert_int_equal(lab_spec_sequence(&spec, 2).offset, 70 + 4 - (60 + 30));
}

static void test_read__lengths__sum_to_totals(void **state) {
    (void)state;
    const lab_spec spec = parsed("b3h1s17d8,lens=5:0:17");
    assert_int_equal(spec.problem.total_q, 22);
    assert_int_equal(spec.problem.total_k, 22);
    assert_int_equal(lab_spec_len_q(&spec, 1), 0);
    const lab_spec drawn = parsed("b6h1s40sk90d8,varlen,lenseed=3");
    int64_t rows = 0, keys = 0;
    for (int b = 0; b < 6; b++) {
        rows += lab_spec_len_q(&drawn, b);
        keys += lab_spec_len_k(&drawn, b);
    }
    assert_int_equal(drawn.problem.total_q, rows);
    assert_int_equal(drawn.problem.total_k, keys);
    assert_int_equal(lab_spec_len_q(&drawn, 0), 40); /* the longest is there */
    assert_int_equal(lab_spec_len_q(&drawn, 1), 0);  /* and an empty one */
}

static void test_read__starts__drawn_within_the_keys(void **state) {
    (void)state;
    const lab_spec drawn = parsed("b8h1s40sk90d8,startsk,lenseed=3");
    bool differ = false;
    for (int b = 0; b < 8; b++) {
        assert_in_range(lab_spec_start_k(&drawn, b), 0, 90);
        differ = differ || lab_spec_start_k(&drawn, b) != lab_spec_start_k(&drawn, 0);
    }
    assert_true(differ);
    assert_int_equal(lab_spec_start_k(&(lab_spec){.lens_seed = 3}, 0), 0);
}

static void test_read__onto_a_spec__overrides(void **state) {
    (void)state;
    lab_spec spec;
    lab_message why;
    lab_spec_init(&spec);
    assert_true(lab_spec_read(&spec, "b2h8s512d64,causal,bf16", &why));
    assert_true(lab_spec_set(&spec, "sk", "1024", &why));
    assert_true(lab_spec_set(&spec, "causal", "bottom-right", &why));
    assert_true(lab_spec_set(&spec, "window", "8,0", &why));
    assert_true(lab_spec_set(&spec, "dtype", "f32", &why));
    assert_true(lab_spec_finish(&spec, &why));
    char line[LAB_SPEC_MAX];
    lab_spec_print(&spec, line, sizeof line);
    assert_string_equal(line, "b2h8s512sk1024d64,f32,causal=bottom-right,window=8:0");
    assert_true(lab_spec_set(&spec, "causal", "none", &why));
    assert_true(lab_spec_finish(&spec, &why));
    assert_int_equal(spec.problem.causal, ATT_CAUSAL_NONE);
}

static void test_print__canonical__drops_what_is_default(void **state) {
    (void)state;
    assert_prints("b1h4hkv4s8sk8d16dv16", "b1h4s8d16,fp16");
    assert_prints("b1hq4hkv2sq8sk9d16dv8,f16,o=fp16", "b1h4hkv2s8sk9d16dv8,fp16");
    assert_prints("b1h4s8d16,fp32,causal,layout=bshd,data=normal", "b1h4s8d16,f32,causal");
    assert_prints("b2h1s9d8,cuq=3:9,cuk=3:9", "b2h1s9d8,fp16,lens=3:9");
    assert_prints("b2h1s9d8,cuq=3:9,cuk=9:3", "b2h1s9d8,fp16,cuq=3:9,cuk=9:3");
    assert_prints("b2h1s9d8,bias=f16:1h1k,biascol=2", "b2h1s9d8,fp16,bias=fp16:1h1k,biascol=2");
    assert_prints("b2h1s9d8,scale=0.1", "b2h1s9d8,fp16,scale=0.100000001");
}

static void test_print__short_buffer__is_terminated(void **state) {
    (void)state;
    const lab_spec spec = parsed("b1h4s8d16,causal");
    char line[8];
    memset(line, 'x', sizeof line);
    lab_spec_print(&spec, line, sizeof line);
    assert_string_equal(line, "b1h4s8d");
}

static void test_read__backward__fills_problem(void **state) {
    (void)state;
    const lab_spec spec = parsed(
        "backward:b2h4hkv2s8sk12d16dv24,bf16,bias=bf16:1hqk,sinks,alibi=b,align=top-left,"
        "layout=bhsd,pad=2,bcast=h,grad=f32,dbias,dsinks,dalibi,do=tiny");
    const att_problem *p = &spec.problem;
    assert_string_equal(lab_spec_operation(&spec), "backward");
    assert_true(p->features & ATT_LSE);
    assert_int_equal(p->gradients, ATT_GRADIENTS_ALL);
    assert_int_equal(p->dtype_grad, ATT_F32);
    assert_int_equal(spec.d_o, LAB_D_O_TINY);
    assert_memory_equal(&p->grad_q, &p->q, sizeof p->q);
    assert_memory_equal(&p->grad_o, &p->o, sizeof p->o);
    assert_memory_equal(&p->grad_bias, &p->bias, sizeof p->bias);
    assert_int_equal(p->k.head, 0); /* an input may be broadcast, its gradient not */
    assert_int_equal(p->grad_k.head, (16 + 2) * 12);
    assert_int_equal(p->grad_v.batch, (24 + 2) * 12 * 2);
    char line[LAB_SPEC_MAX];
    lab_spec_print(&spec, line, sizeof line);
    assert_null(strstr(line, ",lse"));
    assert_non_null(strstr(line, "grad=f32,dbias,dsinks,dalibi,do=tiny"));
}

static void test_read__backward__same_type_of_gradients_is_not_said(void **state) {
    (void)state;
    const lab_spec spec = parsed("backward:b1h1s4d8,bf16,grad=bf16,lse");
    char line[LAB_SPEC_MAX];
    lab_spec_print(&spec, line, sizeof line);
    assert_string_equal(line, "backward:b1h1s4d8,bf16");
    assert_int_equal(spec.problem.dtype_grad, ATT_BF16);
}

static void test_parse__moe__words_and_defaults(void **state) {
    (void)state;
    lab_spec spec = parsed("moe:t3e8k2h64i48");
    const att_moe_problem *p = &spec.moe.problem;
    assert_int_equal(p->dtype, ATT_BF16);
    assert_int_equal(p->dtype_logits, ATT_F32);
    assert_int_equal(p->flags, ATT_MOE_RENORMALISE);
    assert_int_equal(p->local_experts, 8);
    assert_int_equal(p->w1.expert, 2 * 48 * 64);
    spec = parsed("moe:t3e8k2h64i48,f32,act=relu2,transposed,nonorm,range=2:3,pad=1");
    assert_int_equal(p->flags, ATT_MOE_TRANSPOSED);
    assert_int_equal(p->first_expert, 2);
    assert_int_equal(p->local_experts, 3);
    assert_int_equal(p->w1.row, 49);
    assert_int_equal(p->w1.expert, 64 * 49);
    spec = parsed("moe:t3e8k2h64i48,route=given");
    assert_int_equal(p->flags, 0);
    static const char *const wrong[][2] = {
        {"moe:t3e8k2h64i48,act=swigluu", "act=swigluu is none of"},
        {"moe:t3e8k2h64i48,groups=4", "groups=4 is not two numbers"},
        {"moe:t3e8k2h64i48,range=1:0", "range=1:0 is not two numbers"},
        {"moe:t3e8k2h64i48,data=holes", "data=holes: only route=given"},
        {"moe:t3e8k2h64i48,corection", "did you mean 'correction'"},
        {"moe:t3e8k2h64i48,mask=1", "mask takes no value"},
        {"moe:t3e8k2h64x48", "unknown shape key 'x'"},
        {"moe:t3e0k2h64i48", "is not a whole number"},
        {"moe:", "an empty modifier"}};
    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        lab_message why;
        assert_false(lab_spec_parse(&spec, wrong[n][0], &why));
        if (!strstr(why.text, wrong[n][1]))
            fail_msg("%s: '%s' does not hold '%s'", wrong[n][0], why.text, wrong[n][1]);
    }
}

static void test_print__every_suite__reads_back_the_same(void **state) {
    (void)state;
    static const char *const names[] = {"seed",         "quick",   "edge",     "paper",
                                        "small",        "decode",  "cpu",      "sweep",
                                        "hopper",       "merge",   "rows",     "certify",
                                        "certify_cpu",  "float32", "backward", "backward_edge",
                                        "backward_cpu", "moe",     "moe_edge", "moe_cpu"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        char path[64];
        snprintf(path, sizeof path, "suites/%s.txt", names[n]);
        lab_suite suite;
        lab_message why;
        if (!lab_suite_read(&suite, path, &why))
            fail_msg("%s", why.text);
        assert_true(suite.count > 0);
        for (size_t i = 0; i < suite.count; i++) {
            char line[LAB_SPEC_MAX], again[LAB_SPEC_MAX];
            lab_spec_print(&suite.specs[i], line, sizeof line);
            const lab_spec spec = parsed(line);
            lab_spec_print(&spec, again, sizeof again);
            assert_string_equal(line, again);
            const lab_operation *operation = spec.operation;
            assert_ptr_equal(operation, suite.specs[i].operation);
            assert_memory_equal(operation->problem(&spec), operation->problem(&suite.specs[i]),
                                operation->library->problem_bytes);
        }
        lab_suite_free(&suite);
    }
}

static void test_read__merge__fills_its_problem(void **state) {
    (void)state;
    const lab_spec spec = parsed("merge:n5b2h8s33d40,bf16,o=f32,pad=3,layout=bhsd,nolse");
    const att_merge_problem *p = &spec.merge.problem;
    assert_string_equal(lab_spec_operation(&spec), "merge");
    assert_int_equal(p->size, sizeof *p);
    assert_int_equal(p->features, 0);
    assert_int_equal(p->dtype, ATT_BF16);
    assert_int_equal(p->dtype_o, ATT_F32);
    assert_int_equal(p->parts, 5);
    assert_int_equal(p->batch, 2);
    assert_int_equal(p->heads, 8);
    assert_int_equal(p->seq, 33);
    assert_int_equal(p->d, 40);
    assert_int_equal(p->o.row, 43);
    assert_int_equal(p->o.head, 43 * 33);
    assert_int_equal(p->o.batch, 43 * 33 * 8);
    assert_int_equal(p->part_lse.row, 4);
    att_merge_problem plain;
    att_merge_problem_init(&plain, 3, 2, 4, 9, 16, ATT_F16);
    const lab_spec short_one = parsed("merge:n3b2h4s9d16");
    assert_memory_equal(&short_one.merge.problem, &plain, sizeof plain);
}

static void test_print__merge__is_canonical(void **state) {
    (void)state;
    assert_prints("merge:n2", "merge:n2b1h1s1d64,fp16");
    assert_prints("merge:d8s4h3b2n128", "merge:n128b2h3s4d8,fp16");
    assert_prints("merge:n4b2h8s512d64,dtype=bf16,lse", "merge:n4b2h8s512d64,bf16");
    assert_prints("merge:n4,fp32,o=fp32", "merge:n4b1h1s1d64,f32");
    assert_prints("merge:n4,data=normal,layout=bshd,pad=0,offset=0", "merge:n4b1h1s1d64,fp16");
    assert_prints("merge:data=empty,n=3,absurd,offset=1,pad=2,layout=bhsd,nolse,o=bf16",
                  "merge:n3b1h1s1d64,fp16,o=bf16,nolse,layout=bhsd,pad=2,offset=1,absurd,"
                  "data=empty");
}

static void test_refuse__bad_merge_words__name_them(void **state) {
    (void)state;
    assert_refused("merge:n0b1h1s4d8", "n=0 is not a whole number of 1 or more");
    assert_refused("merge:n129", "n129: at most 128 parts can be merged at once");
    assert_refused("merge:n2d0", "d=0 is not a whole number of 1 or more");
    assert_refused("merge:n2b1h2hkv1", "unknown shape key 'hkv'");
    assert_refused("merge:n2,causal", "unknown modifier 'causal'");
    assert_refused("merge:n2,layot=bhsd", "unknown modifier 'layot'; did you mean 'layout'?");
    assert_refused("merge:n2,data=onehot", "data=onehot is none of: normal, empty");
    assert_refused("merge:n2,nolse=1", "nolse takes no value");
    assert_refused("merge:n2,pad", "pad needs a value");
    assert_refused("merge:", "empty modifier");
    assert_refused("merge:n2b1099511627777", "past 2^40");
    assert_refused("merge:n2h10000000000s10000000000d8", "does not fit 63 bits");
    assert_refused("n2b1h1s4d8", "unknown shape key 'n'");
}

static void test_refuse__bad_words__name_them(void **state) {
    (void)state;
    assert_refused("b2h8s512d64,cuasal", "unknown modifier 'cuasal'; did you mean 'causal'?");
    assert_refused("b2x8", "unknown shape key 'x'");
    assert_refused("b2hs512", "unknown shape key 'hs'");
    assert_refused("b2h", "'h' in 'b2h' needs a number");
    assert_refused("b2h8s512d64,", "empty modifier");
    assert_refused("b2h8s512d64,zzzzz", "unknown modifier 'zzzzz'");
    assert_refused("b99999999999999999999", "b=99999999999999999999");
    assert_refused("h=-1", "h=-1 is not a whole number of 0 or more");
    assert_refused("pad", "pad needs a value");
    assert_refused("lse=3", "lse takes no value");
    assert_refused("dtype=int8", "dtype=int8 is none of: fp16, bf16, f32");
    assert_refused("window=3", "window=3 is not LEFT:RIGHT");
    assert_refused("window=-2:0", "window=-2:0");
    assert_refused("scale=fast", "scale=fast is not a number");
    assert_refused("bias=f32:bhkq", "after the colon comes bhqk");
    assert_refused("bias=int", "bias=int is none of");
    assert_refused("lens=3:x", "lens=3:x is not a list of lengths");
    assert_refused("lens", "lens needs a list");
    assert_refused("bcast=q", "bcast=q is none of: b, h, bh");
    assert_refused("alibi=x", "alibi=x is none of: h, b");
}

static void test_refuse__contradictions__name_them(void **state) {
    (void)state;
    assert_refused("b1h6hkv4s8d8", "heads_q=6 is not a multiple of heads_kv=4");
    assert_refused("b1h6hkv0s8d8", "heads_kv=0");
    assert_refused("b1h1s8sk9d8,causal", "causal=top-left or causal=bottom-right");
    assert_refused("b2h1s8d8,causal,lensk=8:3", "causal=top-left or causal=bottom-right");
    assert_refused("b2h1s8d8,lens=1:2:3", "lists 3 lengths but batch=2");
    assert_refused("b2h1s8d8,lens=1:9", "length 9 is beyond the longest, 8");
    assert_refused("b2h1s8d8,startsk=1", "startsk lists 1 starts but batch=2");
    assert_refused("b2h1s8d8,startsk=1:9", "startsk: start 9 is beyond the longest, 8");
    assert_refused("b2h1s8d8,qoffsets=1", "qoffsets lists 1 offsets but batch=2");
    assert_refused("b2h1s8d8,qoffset=1099511627777", "qoffset=1099511627777 is above 2^40");
    assert_refused("b1h1s8sk9d8,layout=packed", "packed needs as many keys as queries");
    assert_refused("b1h1s8d8,layout=packed,bcast=b", "packed does not go with bcast");
    assert_refused("b1h1s8d8,layout=packed,paged=4", "paged goes with neither");
    assert_refused("b4000000000h4000000000s4000000000d8", "63 bits");
}

static void test_work__causal_and_window__count_visible_pairs(void **state) {
    (void)state;
    /* 2 products * 2 operations * (8 + 4) / 2 columns * 3 heads a pair */
    const double each = 2.0 * 3.0 * (8.0 + 4.0);
    lab_spec spec = parsed("b1h3s5d8dv4");
    assert_near(lab_spec_flops(&spec), each * 25, 0.0);
    spec = parsed("b1h3s5d8dv4,causal");
    assert_near(lab_spec_flops(&spec), each * 15, 0.0);
    spec = parsed("b1h3s5d8dv4,causal,window=1:0");
    assert_near(lab_spec_flops(&spec), each * 9, 0.0);
    spec = parsed("b2h3s5d8dv4,lens=2:3");
    assert_near(lab_spec_flops(&spec), each * (4 + 9), 0.0);
    spec = parsed("b3h3s5d8dv4,causal,startsk=0:2:5");
    assert_near(lab_spec_flops(&spec), each * (15 + 6), 0.0);
    spec = parsed("b2h3s5d8dv4,o=f32,lensk=5:3,startsk=2:4");
    assert_near(lab_spec_bytes(&spec), 10.0 * 3 * (16 + 16) + 3.0 * 3 * 12 * 2, 0.0);
    /* rows 5 * 3 heads * (8 * 2 + 4 * 4 bytes) + keys 5 * 3 heads * 12 * 2 bytes */
    spec = parsed("b1h3s5d8dv4,o=f32");
    assert_near(lab_spec_bytes(&spec), 5.0 * 3 * (16 + 16) + 5.0 * 3 * 12 * 2, 0.0);
}

static double counted_pairs(const att_problem *p, const att_ref_sequence *s) {
    double pairs = 0.0;
    for (int64_t i = 0; i < s->len_q; i++) {
        int64_t lo, hi;
        att_ref_visible(p, s, i, &lo, &hi);
        pairs += hi > lo ? (double)(hi - lo) : 0.0;
    }
    return pairs;
}

static void test_work__every_mask__as_counted_row_by_row(void **state) {
    (void)state;
    static const int64_t windows[] = {-1, 0, 1, 3, 8, 40, INT64_MAX};
    enum { WINDOWS = sizeof windows / sizeof windows[0] };
    lab_spec spec = parsed("b1h1s1d8");
    att_problem *p = &spec.problem;
    for (int n = 0; n < 12 * 12 * 5 * WINDOWS * WINDOWS; n++) {
        const int mask = n / 144 % 5;
        const int64_t rows = n % 12, keys = n / 12 % 12;
        p->causal = mask < 2 ? (att_causal)(mask + 1) : ATT_CAUSAL_NONE;
        p->align = mask < 2 ? ATT_ALIGN_UNSET : (att_align)(mask - 2);
        p->window_left = windows[n / 720 % WINDOWS];
        p->window_right = windows[n / 720 / WINDOWS];
        static const int64_t offsets[] = {0, -40, -3, 2, 9, 1 << 20};
        for (int64_t start = 0; start < 12; start += start < 2 ? 1 : 3) {
            const att_ref_sequence s = {rows, keys, start, offsets[n % 6]};
            assert_near(lab_visible_pairs(p, &s), counted_pairs(p, &s), 0.0);
        }
    }
}

/* A loop over the batch or the rows would hit the alarm. */
static void test_work__huge_sizes__in_closed_form(void **state) {
    (void)state;
    alarm(60);
    lab_spec spec = parsed("b1000000000000h1s0d1");
    assert_near(lab_spec_flops(&spec), 0.0, 0.0);
    assert_near(lab_spec_bytes(&spec), 0.0, 0.0);
    spec = parsed("b1000000000000h1s1d1,fp16");
    assert_near(lab_spec_flops(&spec), 4e12, 0.0);
    assert_near(lab_spec_bytes(&spec), 8e12, 0.0);
    spec = parsed("b1h1s1000000000000d1,causal");
    assert_near(lab_spec_flops(&spec) / 2e24, 1.0, 1e-9);
    alarm(0);
}

/* Every plan refuses them, but they can be written, printed and counted. */
static void test_work__no_columns__no_operations(void **state) {
    (void)state;
    static const char *const lines[] = {"b1h1s4d0", "backward:b1h1s4d0",
                                        "backward:b2h3s5d0,causal",
                                        "backward:b1h1s4d0,bias=bool,biasfill=padding"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const lab_spec spec = parsed(lines[i]);
        assert_near(lab_spec_flops(&spec), 0.0, 0.0);
    }
    const lab_spec causal = parsed(lines[2]);
    lab_work work;
    causal.operation->work(&work, &causal);
    assert_near(work.pairs, 2.0 * 3.0 * 15.0, 0.0);
}

static void test_refuse__huge_sizes__name_them(void **state) {
    (void)state;
    assert_refused("b77777777777777777h1s1d8", "batch=77777777777777777 is above 2^40");
    assert_refused("b1h1s0sk9000000000000000000d8", "seq_k=9000000000000000000");
    assert_refused("b1h1s1d8,pad=9000000000000000000", "pad=9000000000000000000");
    assert_refused("b1h1s1d8,paged=9000000000000000000", "paged=9000000000000000000");
    assert_refused("b2000000h1s0d8,varlen", "batch=2000000: lengths are drawn for at most");
    assert_refused("b3h1s2000000000d8,varlen,lenseed=3", "2^31-1");
}

/* ---------------------------------------------------------------------- suites */

static void test_suite__fault__names_file_and_line(void **state) {
    (void)state;
    char folder[] = "/tmp/attest-suite-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[64];
    snprintf(path, sizeof path, "%s/mine.txt", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("# a comment\n\n  b1h1s8d8 # with a note\nb1h1s8d8,cuasal\n", file);
    fclose(file);

    lab_suite suite;
    lab_message why;
    setenv("ATTEST_SUITES", folder, 1);
    assert_false(lab_suite_read(&suite, "mine", &why));
    assert_non_null(strstr(why.text, "mine.txt:4: unknown modifier 'cuasal'"));

    file = fopen(path, "w");
    assert_non_null(file);
    fputs("# a comment\r\n\n  b1h1s8d8 # with a note\r\nb2h1s8d8", file);
    fclose(file);
    assert_true(lab_suite_read(&suite, "mine", &why));
    assert_int_equal(suite.count, 2);
    assert_int_equal(suite.specs[1].problem.batch, 2);
    assert_string_equal(suite.path, path);
    lab_suite_free(&suite);
    unsetenv("ATTEST_SUITES");
    unlink(path);
    rmdir(folder);
}

static void test_suite__missing__names_the_places(void **state) {
    (void)state;
    lab_suite suite;
    lab_message why;
    assert_false(lab_suite_read(&suite, "no-such-suite", &why));
    assert_non_null(strstr(why.text, "no suite 'no-such-suite'"));
    assert_false(lab_suite_read(&suite, "./no-such-file", &why));
    assert_non_null(strstr(why.text, "./no-such-file: "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read__shape__fills_problem),
        cmocka_unit_test(test_read__short_shape__defaults_follow),
        cmocka_unit_test(test_read__bhsd__strides_of_the_library),
        cmocka_unit_test(test_read__packed__offsets_and_strides_of_the_library),
        cmocka_unit_test(test_read__modifiers__fill_problem),
        cmocka_unit_test(test_read__lengths__sum_to_totals),
        cmocka_unit_test(test_read__starts__drawn_within_the_keys),
        cmocka_unit_test(test_read__onto_a_spec__overrides),
        cmocka_unit_test(test_print__canonical__drops_what_is_default),
        cmocka_unit_test(test_print__short_buffer__is_terminated),
        cmocka_unit_test(test_read__backward__fills_problem),
        cmocka_unit_test(test_read__backward__same_type_of_gradients_is_not_said),
        cmocka_unit_test(test_parse__moe__words_and_defaults),
        cmocka_unit_test(test_print__every_suite__reads_back_the_same),
        cmocka_unit_test(test_read__merge__fills_its_problem),
        cmocka_unit_test(test_print__merge__is_canonical),
        cmocka_unit_test(test_refuse__bad_merge_words__name_them),
        cmocka_unit_test(test_refuse__bad_words__name_them),
        cmocka_unit_test(test_refuse__contradictions__name_them),
        cmocka_unit_test(test_work__causal_and_window__count_visible_pairs),
        cmocka_unit_test(test_work__every_mask__as_counted_row_by_row),
        cmocka_unit_test(test_work__huge_sizes__in_closed_form),
        cmocka_unit_test(test_work__no_columns__no_operations),
        cmocka_unit_test(test_refuse__huge_sizes__name_them),
        cmocka_unit_test(test_suite__fault__names_file_and_line),
        cmocka_unit_test(test_suite__missing__names_the_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
