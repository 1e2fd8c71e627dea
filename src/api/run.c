/* run.c: the checks of a run, then the run. Nothing is written before every check has passed.
 */
#include "api/plan.h"
#include "api/sized.h"
#include "base/dtype.h"
#include "base/error.h"
#include "cpu/forward.h"
#include "cuda/alignment.h"
#include "cuda/pointers.h"

/* A buffer of a run: what it is called, where it is, how far it reaches. */
typedef struct buffer {
    const char *name;
    const void *base;
    int64_t extent;   /* bytes; 0: never touched */
    size_t alignment; /* of an element; on a GPU what the plan counts on */
    uint32_t feature; /* 0: always there */
    bool output;
} buffer;

enum { BUFFERS = 13 };

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void list_buffers(const att_plan *plan, const att_args *a, buffer list[BUFFERS]) {
    const att_problem *p = &plan->problem;
    const att_extents *e = &plan->extents;
    const size_t least = plan->kernel->cuda ? att_cuda_base_alignment(p) : 1;
    const size_t in = larger(att_dtype_size(p->dtype), least);
    const size_t out = larger(att_dtype_size(p->dtype_o), least);
    const size_t bias = p->features & ATT_BIAS ? att_dtype_size(p->bias_dtype) : 1;
    const buffer all[BUFFERS] = {
        {"o", a->o, e->o, out, 0, true},
        {"lse", a->lse, e->lse, sizeof(float), ATT_LSE, true},
        {"q", a->q, e->q, in, 0, false},
        {"k", a->k, e->k, in, 0, false},
        {"v", a->v, e->v, in, 0, false},
        {"alibi", a->alibi, e->alibi, sizeof(float), ATT_ALIBI, false},
        {"bias", a->bias, e->bias, bias, ATT_BIAS, false},
        {"sinks", a->sinks, e->sinks, sizeof(float), ATT_SINKS, false},
        {"cu_seqlens_q", a->cu_seqlens_q, e->cu_seqlens, sizeof(int32_t), ATT_CU_SEQLENS_Q,
         false},
        {"cu_seqlens_k", a->cu_seqlens_k, e->cu_seqlens, sizeof(int32_t), ATT_CU_SEQLENS_K,
         false},
        {"lens_k", a->lens_k, e->lens_k, sizeof(int32_t), ATT_LENS_K, false},
        {"page_table", a->page_table, e->page_table, sizeof(int32_t), ATT_PAGED, false},
        {"workspace", NULL, 0, 1, 0, true}, /* filled in by the caller of this function */
    };
    for (int i = 0; i < BUFFERS; i++)
        list[i] = all[i];
}

static att_status check_buffer(const buffer *b, const att_problem *p) {
    if (b->feature && !(p->features & b->feature)) {
        ATT_REQUIRE(!b->base, ATT_E_ARG, b->name,
                    "%s is set, but the problem's features do not name it", b->name);
        return ATT_OK;
    }
    ATT_REQUIRE(b->base || b->extent == 0, ATT_E_ARG, b->name, "%s is NULL", b->name);
    ATT_REQUIRE((uintptr_t)b->base % b->alignment == 0, ATT_E_ARG, b->name,
                "%s is not aligned to %zu bytes, its elements or the problem's alignment",
                b->name, b->alignment);
    ATT_REQUIRE((uintptr_t)b->base <= UINTPTR_MAX - (uint64_t)b->extent, ATT_E_OVERFLOW,
                b->name, "%s reaches past the end of the address space", b->name);
    return ATT_OK;
}

static bool overlap(const buffer *a, const buffer *b) {
    const uintptr_t a0 = (uintptr_t)a->base, b0 = (uintptr_t)b->base;
    if (!a->base || !b->base || a->extent == 0 || b->extent == 0)
        return false;
    return a0 < b0 + (uint64_t)b->extent && b0 < a0 + (uint64_t)a->extent;
}

static att_status check_buffers(const att_plan *plan, const att_args *a, const void *workspace,
                                buffer list[BUFFERS]) {
    list_buffers(plan, a, list);
    for (int i = 0; i < BUFFERS - 1; i++)
        ATT_TRY(check_buffer(&list[i], &plan->problem));
    ATT_REQUIRE(workspace || plan->workspace == 0, ATT_E_WORKSPACE, "workspace",
                "workspace is NULL, %zu bytes are needed", plan->workspace);
    ATT_REQUIRE(a->workspace_size == 0 || a->workspace_size >= plan->workspace, ATT_E_WORKSPACE,
                "workspace_size", "workspace_size=%zu, %zu bytes are needed", a->workspace_size,
                plan->workspace);
    ATT_REQUIRE((uintptr_t)workspace % ATT_WORKSPACE_ALIGN == 0, ATT_E_WORKSPACE, "workspace",
                "workspace is not aligned to %d bytes", ATT_WORKSPACE_ALIGN);
    list[BUFFERS - 1].base = workspace;
    list[BUFFERS - 1].extent = (int64_t)plan->workspace;
    for (int i = 0; i < BUFFERS; i++)
        for (int j = 0; list[i].output && j < BUFFERS; j++)
            ATT_REQUIRE(i == j || !overlap(&list[i], &list[j]), ATT_E_ALIAS, list[i].name,
                        "%s overlaps %s", list[i].name, list[j].name);
    return ATT_OK;
}

/* `most` rows a sequence, `total` rows in all, which the problem calls `total_name`. */
static att_status check_cu_seqlens(const int32_t *cu, const char *name, int64_t batch,
                                   int64_t most, const char *total_name, int64_t total) {
    ATT_REQUIRE(cu[0] == 0, ATT_E_DATA, name, "%s[0]=%d is not 0", name, cu[0]);
    for (int64_t b = 0; b < batch; b++) {
        ATT_REQUIRE(cu[b + 1] >= cu[b], ATT_E_DATA, name, "%s[%lld]=%d is below %s[%lld]=%d",
                    name, (long long)b + 1, cu[b + 1], name, (long long)b, cu[b]);
        ATT_REQUIRE(cu[b + 1] - cu[b] <= most, ATT_E_DATA, name,
                    "%s: sequence %lld has %d rows, the problem's longest is %lld", name,
                    (long long)b, cu[b + 1] - cu[b], (long long)most);
    }
    ATT_REQUIRE(cu[batch] <= total, ATT_E_DATA, name, "%s ends at %d, past %s=%lld", name,
                cu[batch], total_name, (long long)total);
    return ATT_OK;
}

/* Every page id that some key in use would be read through: of a cache without room for a key there is none, however many
 * sequences it has. */
static att_status check_pages(const att_problem *p, const att_args *a) {
    if (p->seq_k == 0)
        return ATT_OK;
    for (int64_t b = 0; b < p->batch; b++) {
        const int64_t keys = att_cpu_sequence_of(p, a, b, 0).len_k;
        const int32_t *table = a->page_table + b * p->page_table_stride;
        for (int64_t i = 0; i < att_ceil_div(keys, p->page_size); i++)
            ATT_REQUIRE(table[i] >= 0 && table[i] < p->num_pages, ATT_E_DATA, "page_table",
                        "page_table[%lld][%lld]=%d is not in 0 .. %lld", (long long)b,
                        (long long)i, table[i], (long long)p->num_pages - 1);
    }
    return ATT_OK;
}

static att_status check_contents(const att_problem *p, const att_args *a) {
    if (p->features & ATT_CU_SEQLENS_Q)
        ATT_TRY(check_cu_seqlens(a->cu_seqlens_q, "cu_seqlens_q", p->batch, p->seq_q, "total_q",
                                 p->total_q));
    if (p->features & ATT_CU_SEQLENS_K) {
        const int64_t total = p->features & ATT_PAGED ? INT64_MAX : p->total_k;
        ATT_TRY(check_cu_seqlens(a->cu_seqlens_k, "cu_seqlens_k", p->batch, p->seq_k, "total_k",
                                 total));
    }
    if (p->features & ATT_LENS_K)
        for (int64_t b = 0; b < p->batch; b++)
            ATT_REQUIRE(a->lens_k[b] >= 0 && a->lens_k[b] <= p->seq_k, ATT_E_DATA, "lens_k",
                        "lens_k[%lld]=%d is not in 0 .. seq_k=%lld", (long long)b, a->lens_k[b],
                        (long long)p->seq_k);
    if (p->features & ATT_PAGED)
        ATT_TRY(check_pages(p, a));
    return ATT_OK;
}

/* What is used is memory that the GPU can reach: a pointer that is not would fault there, and a fault
 * costs the process its device. */
static att_status check_reach(att_cuda_device *gpu, const buffer list[BUFFERS]) {
    for (int i = 0; i < BUFFERS; i++)
        if (list[i].base && list[i].extent > 0)
            ATT_TRY(att_cuda_pointer_check(gpu, list[i].base, list[i].name));
    return ATT_OK;
}

att_status att_plan_run(const att_plan *plan, const att_args *args, void *workspace,
                        void *stream) {
    ATT_REQUIRE(plan, ATT_E_ARG, "plan", "plan is NULL");
    ATT_REQUIRE(args, ATT_E_ARG, "args", "args is NULL");
    const bool on_gpu = plan->kernel->cuda;
    ATT_REQUIRE(on_gpu || !stream, ATT_E_ARG, "stream",
                "stream is set, but the plan runs on the CPU");
    att_args a;
    buffer list[BUFFERS];
    ATT_TRY(att_sized_copy(&a, sizeof a, ATT_ARGS_0_1, args, "args"));
    ATT_TRY(check_buffers(plan, &a, workspace, list));
    if (on_gpu) {
        if (!plan->ctx->trust_pointers)
            ATT_TRY(check_reach(plan->ctx->gpu, list));
        return att_cuda_forward(&plan->cuda, &a, workspace, stream);
    }
    ATT_TRY(check_contents(&plan->problem, &a));
    att_cpu_forward(plan->kernel->cpu, &plan->tiling, &plan->problem, &a, workspace,
                    plan->ctx->pool);
    return ATT_OK;
}
