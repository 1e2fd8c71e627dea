/* attention_data.c: checks the lengths, positions and page ids of a run before anything is read
 * through them. */
#include "attention/cpu/job.h"
#include "attention/problem.h"
#include "base/error.h"

/* At most `most` rows per sequence and `total` rows in all; the problem calls the latter
 * `total_name`. */
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

/* Check a number of keys per batch entry. */
static att_status check_counts(const int32_t *counts, const char *name, const att_problem *p) {
    for (int64_t b = 0; b < p->batch; b++)
        ATT_REQUIRE(counts[b] >= 0 && counts[b] <= p->seq_k, ATT_E_DATA, name,
                    "%s[%lld]=%d is not in 0 .. seq_k=%lld", name, (long long)b, counts[b],
                    (long long)p->seq_k);
    return ATT_OK;
}

/* Check a position per batch entry. */
static att_status check_positions(const int32_t *positions, const char *name, int64_t batch) {
    for (int64_t b = 0; b < batch; b++)
        ATT_REQUIRE(positions[b] >= 0, ATT_E_DATA, name, "%s[%lld]=%d is below 0", name,
                    (long long)b, positions[b]);
    return ATT_OK;
}

/* Check every page id through which a key in use would be read. A cache without room for a key
 * has none, however many sequences it has. */
static att_status check_pages(const att_problem *p, const att_args *a) {
    if (p->seq_k == 0)
        return ATT_OK;
    for (int64_t b = 0; b < p->batch; b++) {
        const att_cpu_sequence s = att_cpu_sequence_of(p, a, b, 0);
        const int32_t *table = a->page_table + b * p->page_table_stride;
        const int64_t end = s.len_k > 0 ? att_ceil_div(s.first_k + s.len_k, p->page_size) : 0;
        ATT_REQUIRE(end == 0 || p->num_pages > 0, ATT_E_DATA, "page_table",
                    "page_table: sequence %lld has %lld keys, but the cache has no pages: "
                    "num_pages=0",
                    (long long)b, (long long)s.len_k);
        for (int64_t i = s.first_k / p->page_size; i < end; i++)
            ATT_REQUIRE(table[i] >= 0 && table[i] < p->num_pages, ATT_E_DATA, "page_table",
                        "page_table[%lld][%lld]=%d is not in 0 .. %lld", (long long)b,
                        (long long)i, table[i], (long long)p->num_pages - 1);
    }
    return ATT_OK;
}

att_status att_attention_check_data(const void *problem, const void *args) {
    const att_problem *p = problem;
    const att_args *a = args;
    if (p->features & ATT_CU_SEQLENS_Q)
        ATT_TRY(check_cu_seqlens(a->cu_seqlens_q, "cu_seqlens_q", p->batch, p->seq_q, "total_q",
                                 p->total_q));
    if (p->features & ATT_CU_SEQLENS_K) {
        const int64_t total = p->features & ATT_PAGED ? INT64_MAX : p->total_k;
        ATT_TRY(check_cu_seqlens(a->cu_seqlens_k, "cu_seqlens_k", p->batch, p->seq_k, "total_k",
                                 total));
    }
    if (p->features & ATT_LENS_K)
        ATT_TRY(check_counts(a->lens_k, "lens_k", p));
    if (p->features & ATT_STARTS_K)
        ATT_TRY(check_counts(a->starts_k, "starts_k", p));
    if (p->features & ATT_Q_OFFSETS)
        ATT_TRY(check_positions(a->q_offsets, "q_offsets", p->batch));
    if (p->features & ATT_K_OFFSETS)
        ATT_TRY(check_positions(a->k_offsets, "k_offsets", p->batch));
    if (p->features & ATT_PAGED)
        ATT_TRY(check_pages(p, a));
    return ATT_OK;
}
