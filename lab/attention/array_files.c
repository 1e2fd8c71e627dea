/* array_files.c: turns the shapes of .npy arrays into an att_problem, and their mappings into
 * att_args. */
#include "lab/attention/array_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lab/problem/npy_header.h"
#include "attention/ref/oracle.h"
#include "lab/problem/lab_operation.h"

/* Sizes of Q, K or V in any layout. Packed arrays have batch 1. */
typedef struct tensor_shape {
    int64_t batch, heads, rows, d;
    bool packed;
} tensor_shape;

typedef struct binder {
    lab_array_files *files;
    const lab_array_paths *paths;
    lab_layout layout;
    lab_message *why;
} binder;

static bool has(const binder *b, lab_file file) {
    return b->paths->input[file] != NULL;
}

static bool open_inputs(binder *b) {
    for (int i = 0; i < LAB_FILE_COUNT; i++)
        if (b->paths->input[i] &&
            !lab_npy_open(&b->files->array[i], b->paths->input[i], b->why))
            return false;
    return true;
}

static bool element_type(const binder *b, lab_file file, att_dtype *dtype) {
    const lab_npy_type type = b->files->array[file].type;
    const char *path = b->paths->input[file];
    switch (type) {
    case LAB_NPY_FLOAT32:
        *dtype = ATT_F32;
        return true;
    case LAB_NPY_FLOAT16:
        *dtype = ATT_F16;
        return true;
    case LAB_NPY_BFLOAT16:
        *dtype = ATT_BF16;
        return true;
    case LAB_NPY_UINT16:
    case LAB_NPY_RAW16:
        *dtype = ATT_BF16;
        return b->paths->uint16_is_bf16 ||
               lab_fail(b->why, "%s: %s; say --bf16 if it holds bfloat16", path,
                        lab_npy_type_name(type));
    case LAB_NPY_BOOL:
        *dtype = ATT_BOOL8;
        return file == LAB_FILE_BIAS || lab_fail(b->why, "%s: bool is for --bias alone", path);
    default:
        return lab_fail(b->why,
                        "%s: %s; float32, float16, bfloat16 or (with --bf16) uint16 is served",
                        path, lab_npy_type_name(type));
    }
}

static bool same(const binder *b, const char *what, lab_file file, int64_t value,
                 lab_file other, int64_t expected) {
    return value == expected ||
           lab_fail(b->why, "%s has %s %" PRId64 ", but %s has %" PRId64, b->paths->input[file],
                    what, value, b->paths->input[other], expected);
}

static bool tensor_shape_of(const binder *b, lab_file file, bool packed, tensor_shape *out) {
    const lab_npy *array = &b->files->array[file];
    const int dims = packed ? 3 : 4;
    if (array->dims != dims)
        return lab_fail(b->why, "%s has %d dimensions; %s", b->paths->input[file], array->dims,
                        packed ? "with cu_seqlens it must be (total, heads, d)"
                        : b->layout == LAB_BHSD
                            ? "with --layout bhsd it must be (batch, heads, seq, d)"
                            : "it must be (batch, seq, heads, d), or say --layout bhsd");
    const int64_t *size = array->shape;
    if (packed)
        *out = (tensor_shape){1, size[1], size[0], size[2], true};
    else if (b->layout == LAB_BHSD)
        *out = (tensor_shape){size[0], size[1], size[2], size[3], false};
    else
        *out = (tensor_shape){size[0], size[2], size[1], size[3], false};
    return true;
}

static att_strides strides_of(const binder *b, const tensor_shape *t) {
    if (b->layout == LAB_BHSD && !t->packed)
        return (att_strides){t->heads * t->rows * t->d, t->rows * t->d, t->d, 1};
    return (att_strides){t->rows * t->heads * t->d, t->d, t->heads * t->d, 1};
}

/* A vector of int32, converted from int64 if necessary; *count entries. */
static bool bind_lengths(binder *b, lab_file file, const int32_t **out, int64_t *count) {
    const lab_npy *array = &b->files->array[file];
    const char *path = b->paths->input[file];
    if (array->dims != 1 || (array->type != LAB_NPY_INT32 && array->type != LAB_NPY_INT64))
        return lab_fail(b->why, "%s: lengths must be one-dimensional int32 or int64", path);
    *count = array->count;
    if (array->type == LAB_NPY_INT32) {
        *out = array->data;
        return true;
    }
    int32_t *narrow = calloc((size_t)array->count + 1, sizeof *narrow);
    if (!narrow)
        return lab_fail(b->why, "%s: no memory for %" PRId64 " lengths", path, array->count);
    b->files->converted[file] = narrow;
    for (int64_t i = 0; i < array->count; i++) {
        const int64_t wide = ((const int64_t *)array->data)[i];
        if (wide < INT32_MIN || wide > INT32_MAX)
            return lab_fail(b->why, "%s: entry %" PRId64 " is %" PRId64 ", past int32", path, i,
                            wide);
        narrow[i] = (int32_t)wide;
    }
    *out = narrow;
    return true;
}

/* cu_seqlens: its pointer, the number of sequences, and the longest of them. The library checks
 * whether the entries make sense. */
static bool bind_cu_seqlens(binder *b, lab_file file, const int32_t **out, int64_t *sequences,
                            int64_t *longest) {
    int64_t count;
    if (!bind_lengths(b, file, out, &count))
        return false;
    if (count == 0)
        return lab_fail(b->why, "%s: cu_seqlens needs one entry more than there are sequences",
                        b->paths->input[file]);
    *sequences = count - 1;
    *longest = 0;
    for (int64_t i = 0; i < *sequences; i++) {
        const int64_t length = (int64_t)(*out)[i + 1] - (*out)[i];
        *longest = length > *longest ? length : *longest;
    }
    return true;
}

/* Slopes or sinks: float32, converted from float64 if necessary. */
static bool bind_floats(binder *b, lab_file file, const float **out) {
    const lab_npy *array = &b->files->array[file];
    const char *path = b->paths->input[file];
    if (array->type == LAB_NPY_FLOAT32) {
        *out = array->data;
        return true;
    }
    if (array->type != LAB_NPY_FLOAT64)
        return lab_fail(b->why, "%s: %s; float32 or float64 is served", path,
                        lab_npy_type_name(array->type));
    float *narrow = calloc((size_t)array->count + 1, sizeof *narrow);
    if (!narrow)
        return lab_fail(b->why, "%s: no memory for %" PRId64 " numbers", path, array->count);
    b->files->converted[file] = narrow;
    for (int64_t i = 0; i < array->count; i++)
        narrow[i] = (float)((const double *)array->data)[i];
    *out = narrow;
    return true;
}

/* O has the rows of Q and the head dimension of V: neither file alone bounds its size. */
static bool output_fits(const binder *b, const tensor_shape *q, int64_t d_v) {
    const int64_t shape[4] = {q->batch, q->heads, q->rows, d_v};
    int64_t count, bytes;
    return lab_npy_shape_bytes(LAB_NPY_FLOAT32, 4, shape, &count, &bytes, b->paths->o, b->why);
}

/* Q, K, V: sizes, dtype, strides; cu_seqlens decide which sides are packed. */
static bool bind_tensors(binder *b, lab_spec *spec) {
    lab_array_files *f = b->files;
    const bool packed_q = has(b, LAB_FILE_CU_Q), packed_k = has(b, LAB_FILE_CU_K);
    tensor_shape q = {0}, k = {0}, v = {0};
    att_dtype dtype_q = ATT_F32, dtype_k = ATT_F32, dtype_v = ATT_F32;
    if (!tensor_shape_of(b, LAB_FILE_Q, packed_q, &q) ||
        !tensor_shape_of(b, LAB_FILE_K, packed_k, &k) ||
        !tensor_shape_of(b, LAB_FILE_V, packed_k, &v) ||
        !element_type(b, LAB_FILE_Q, &dtype_q) || !element_type(b, LAB_FILE_K, &dtype_k) ||
        !element_type(b, LAB_FILE_V, &dtype_v))
        return false;
    if (dtype_k != dtype_q || dtype_v != dtype_q)
        return lab_fail(b->why, "%s, %s and %s must have one element type",
                        b->paths->input[LAB_FILE_Q], b->paths->input[LAB_FILE_K],
                        b->paths->input[LAB_FILE_V]);
    if (!same(b, "head dimension", LAB_FILE_K, k.d, LAB_FILE_Q, q.d) ||
        !same(b, "heads", LAB_FILE_V, v.heads, LAB_FILE_K, k.heads) ||
        !same(b, packed_k ? "total rows" : "seq", LAB_FILE_V, v.rows, LAB_FILE_K, k.rows) ||
        !same(b, "batch", LAB_FILE_V, v.batch, LAB_FILE_K, k.batch) || !output_fits(b, &q, v.d))
        return false;

    if (packed_q &&
        !bind_cu_seqlens(b, LAB_FILE_CU_Q, &f->args.cu_seqlens_q, &q.batch, &q.rows))
        return false;
    if (packed_k &&
        !bind_cu_seqlens(b, LAB_FILE_CU_K, &f->args.cu_seqlens_k, &k.batch, &k.rows))
        return false;
    if (!same(b, packed_k ? "sequences" : "batch", packed_k ? LAB_FILE_CU_K : LAB_FILE_K,
              k.batch, packed_q ? LAB_FILE_CU_Q : LAB_FILE_Q, q.batch))
        return false;

    spec->problem.batch = q.batch;
    spec->problem.heads_q = q.heads;
    spec->heads_kv = k.heads;
    spec->problem.seq_q = q.rows;
    spec->seq_k = k.rows;
    spec->problem.d_qk = q.d;
    spec->d_v = v.d;
    spec->problem.dtype = dtype_q;
    return true;
}

/* The number of sequences whose lengths an array lists; 1 if none does, because all are
 * alike. */
static int64_t sequences(const att_problem *p) {
    const bool vary =
        p->features & (ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LENS_K | ATT_STARTS_K);
    return vary || p->batch == 0 ? p->batch : 1;
}

/* A plain causal mask is unambiguous only if every sequence has as many rows as keys. */
static bool causal_is_clear(const binder *b, const lab_spec *base) {
    const att_problem *p = &b->files->problem;
    for (int64_t i = 0; base->causal_plain && i < sequences(p); i++) {
        const int64_t rows = att_ref_len_q(p, &b->files->args, i);
        const int64_t keys = att_ref_len_k(p, &b->files->args, i);
        if (rows != keys)
            return lab_fail(b->why,
                            "sequence %" PRId64 " has %" PRId64 " rows and %" PRId64
                            " keys: say --causal=top-left or --causal=bottom-right",
                            i, rows, keys);
    }
    return true;
}

/* Strides of the arrays in their files, and those of the outputs. */
static void set_strides(const binder *b) {
    att_problem *p = &b->files->problem;
    const lab_npy *array = b->files->array;
    const bool packed_q = has(b, LAB_FILE_CU_Q), packed_k = has(b, LAB_FILE_CU_K);
    const int64_t rows_q = packed_q ? array[LAB_FILE_Q].shape[0] : p->seq_q;
    const int64_t rows_k = packed_k ? array[LAB_FILE_K].shape[0] : p->seq_k;
    p->total_q = packed_q ? rows_q : 0;
    p->total_k = packed_k ? rows_k : 0;
    p->q = strides_of(b, &(tensor_shape){p->batch, p->heads_q, rows_q, p->d_qk, packed_q});
    p->o = strides_of(b, &(tensor_shape){p->batch, p->heads_q, rows_q, p->d_v, packed_q});
    p->k = strides_of(b, &(tensor_shape){p->batch, p->heads_kv, rows_k, p->d_qk, packed_k});
    p->v = strides_of(b, &(tensor_shape){p->batch, p->heads_kv, rows_k, p->d_v, packed_k});
    p->lse = (att_strides){p->heads_q * rows_q, rows_q, 1, 1};
}

/* The bias, its dimensions matched from the right as NumPy broadcasts them. */
static bool bind_bias(binder *b) {
    att_problem *p = &b->files->problem;
    const lab_npy *array = &b->files->array[LAB_FILE_BIAS];
    const char *path = b->paths->input[LAB_FILE_BIAS];
    if (!element_type(b, LAB_FILE_BIAS, &p->bias_dtype))
        return false;
    if (array->dims > 4)
        return lab_fail(b->why, "%s has %d dimensions; a bias has at most 4", path,
                        array->dims);
    const int64_t full[4] = {p->batch, p->heads_q, p->seq_q, p->seq_k};
    static const char *const names[4] = {"batch", "heads_q", "seq_q", "seq_k"};
    int64_t strides[4] = {0, 0, 0, 0}, step = 1;
    for (int i = 1; i <= array->dims; i++) {
        const int64_t size = array->shape[array->dims - i];
        const int target = 4 - i;
        if (size != 1 && size != full[target])
            return lab_fail(b->why, "%s: size %" PRId64 " is neither 1 nor %s=%" PRId64, path,
                            size, names[target], full[target]);
        strides[target] = size == 1 ? 0 : step;
        step *= size;
    }
    p->bias = (att_strides){strides[0], strides[1], strides[2], strides[3]};
    b->files->args.bias = array->data;
    p->features |= ATT_BIAS;
    return true;
}

static bool bind_alibi(binder *b) {
    att_problem *p = &b->files->problem;
    const lab_npy *array = &b->files->array[LAB_FILE_ALIBI];
    const bool shared = array->dims == 1 && array->shape[0] == p->heads_q;
    const bool per_batch =
        array->dims == 2 && array->shape[0] == p->batch && array->shape[1] == p->heads_q;
    if (!shared && !per_batch)
        return lab_fail(b->why,
                        "%s: slopes must be (heads_q) or (batch, heads_q), heads_q=%" PRId64,
                        b->paths->input[LAB_FILE_ALIBI], p->heads_q);
    p->alibi_stride_batch = per_batch ? p->heads_q : 0;
    p->features |= ATT_ALIBI;
    return bind_floats(b, LAB_FILE_ALIBI, &b->files->args.alibi);
}

static bool bind_sinks(binder *b) {
    att_problem *p = &b->files->problem;
    const lab_npy *array = &b->files->array[LAB_FILE_SINKS];
    if (array->dims != 1 || array->shape[0] != p->heads_q)
        return lab_fail(b->why, "%s: sinks must be (heads_q), heads_q=%" PRId64,
                        b->paths->input[LAB_FILE_SINKS], p->heads_q);
    p->features |= ATT_SINKS;
    return bind_floats(b, LAB_FILE_SINKS, &b->files->args.sinks);
}

/* A number per batch entry: lens_k, starts_k or offsets, if there is such a file. */
static bool bind_counts(binder *b, lab_file file, uint32_t feature, const int32_t **out) {
    int64_t count = 0;
    if (!has(b, file))
        return true;
    if (!bind_lengths(b, file, out, &count))
        return false;
    b->files->problem.features |= feature;
    return count == b->files->problem.batch ||
           lab_fail(b->why, "%s has %" PRId64 " entries, but the batch is %" PRId64,
                    b->paths->input[file], count, b->files->problem.batch);
}

static bool bind_all(binder *b, const lab_spec *base) {
    lab_array_files *f = b->files;
    lab_spec spec = *base;
    if (!open_inputs(b) || !bind_tensors(b, &spec) || !lab_spec_finish(&spec, b->why))
        return false;
    f->problem = spec.problem;
    f->problem.features = (has(b, LAB_FILE_CU_Q) ? ATT_CU_SEQLENS_Q : 0u) |
                          (has(b, LAB_FILE_CU_K) ? ATT_CU_SEQLENS_K : 0u) |
                          (b->paths->lse ? ATT_LSE : 0u);
    set_strides(b);
    f->args.size = sizeof f->args;
    f->args.q = f->array[LAB_FILE_Q].data;
    f->args.k = f->array[LAB_FILE_K].data;
    f->args.v = f->array[LAB_FILE_V].data;
    const uintptr_t bits =
        16 | (uintptr_t)f->args.q | (uintptr_t)f->args.k | (uintptr_t)f->args.v;
    f->problem.alignment = (int64_t)(bits & (~bits + 1));
    return bind_counts(b, LAB_FILE_LENS_K, ATT_LENS_K, &f->args.lens_k) &&
           bind_counts(b, LAB_FILE_STARTS_K, ATT_STARTS_K, &f->args.starts_k) &&
           bind_counts(b, LAB_FILE_Q_OFFSETS, ATT_Q_OFFSETS, &f->args.q_offsets) &&
           bind_counts(b, LAB_FILE_K_OFFSETS, ATT_K_OFFSETS, &f->args.k_offsets) &&
           causal_is_clear(b, base) && (!has(b, LAB_FILE_BIAS) || bind_bias(b)) &&
           (!has(b, LAB_FILE_ALIBI) || bind_alibi(b)) &&
           (!has(b, LAB_FILE_SINKS) || bind_sinks(b));
}

bool lab_array_files_open(lab_array_files *out, const lab_array_paths *paths,
                          const lab_spec *base, lab_message *why) {
    memset(out, 0, sizeof *out);
    binder b = {.files = out, .paths = paths, .layout = base->layout, .why = why};
    if (bind_all(&b, base))
        return true;
    lab_array_files_close(out);
    return false;
}

/* bfloat16 is written in the type of Q's file, otherwise as uint16. */
static lab_npy_type file_type(att_dtype dtype, lab_npy_type q) {
    switch (dtype) {
    case ATT_F32:
        return LAB_NPY_FLOAT32;
    case ATT_F16:
        return LAB_NPY_FLOAT16;
    default:
        return q == LAB_NPY_BFLOAT16 ? q : LAB_NPY_UINT16;
    }
}

bool lab_array_files_create_outputs(lab_array_files *files, const lab_array_paths *paths,
                                    lab_message *why) {
    const att_problem *p = &files->problem;
    const lab_npy *q = &files->array[LAB_FILE_Q];
    int64_t shape[4];
    memcpy(shape, q->shape, sizeof shape);
    shape[q->dims - 1] = p->d_v;
    if (!lab_npy_create(&files->o, paths->o, file_type(p->dtype_o, q->type), q->dims, shape,
                        why))
        return false;
    files->args.o = files->o.data;
    if (!paths->lse)
        return true;
    const bool packed = (p->features & ATT_CU_SEQLENS_Q) != 0;
    const int64_t padded_lse[3] = {p->batch, p->heads_q, p->seq_q};
    const int64_t packed_lse[2] = {p->heads_q, p->total_q};
    if (!lab_npy_create(&files->lse, paths->lse, LAB_NPY_FLOAT32, packed ? 2 : 3,
                        packed ? packed_lse : padded_lse, why))
        return false;
    files->args.lse = files->lse.data;
    return true;
}

bool lab_array_files_commit(lab_array_files *files, lab_message *why) {
    return lab_npy_commit(&files->o, why) &&
           (!files->args.lse || lab_npy_commit(&files->lse, why));
}

void lab_array_files_close(lab_array_files *files) {
    for (int i = 0; i < LAB_FILE_COUNT; i++) {
        lab_npy_close(&files->array[i]);
        free(files->converted[i]);
    }
    lab_npy_discard(&files->o);
    lab_npy_discard(&files->lse);
    memset(files, 0, sizeof *files);
}

double lab_array_files_flops(const lab_array_files *files) {
    const att_problem *p = &files->problem;
    double pairs = 0.0;
    for (int64_t b = 0; b < sequences(p); b++) {
        const att_ref_sequence s = att_ref_sequence_of(p, &files->args, b);
        pairs += lab_visible_pairs(p, &s);
    }
    if (p->batch > 0)
        pairs *= (double)p->batch / (double)sequences(p);
    return pairs * (double)p->heads_q * 2.0 * (double)(p->d_qk + p->d_v);
}

json_t *lab_array_files_json(const lab_array_files *files) {
    lab_spec spec;
    lab_spec_init(&spec);
    spec.problem = files->problem;
    return spec.operation->shape(&spec);
}
