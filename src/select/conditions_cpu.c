/* conditions_cpu.c: what the CPU kernels ask of a problem. */
#include "cpu/features.h"
#include "select/conditions.h"

bool att_cpu_row_serves(const att_kernel_row *row, const att_limits *limits,
                        const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(row->isa <= limits->isa, "isa", "needs %s, this context has %s",
                  att_isa_name(row->isa), att_isa_name(limits->isa));
    ATT_CONDITION(row->isa != ATT_ISA_AMX || p->dtype != ATT_F32 || limits->amx_f32, "dtype",
                  "f32 goes to AMX only where ATT_AMX_F32 allows it");
    ATT_CONDITION(p->d_qk <= ATT_CPU_D_MAX, "d_qk", "d_qk=%lld is above %d", (long long)p->d_qk,
                  ATT_CPU_D_MAX);
    ATT_CONDITION(p->d_v <= ATT_CPU_D_MAX, "d_v", "d_v=%lld is above %d", (long long)p->d_v,
                  ATT_CPU_D_MAX);
    const int64_t group = p->heads_q / p->heads_kv;
    ATT_CONDITION(row->family != ATT_FAMILY_DECODE || p->seq_q <= row->cpu->row_most / group,
                  "seq_q", "seq_q=%lld x %lld heads a group is above %lld rows",
                  (long long)p->seq_q, (long long)group, (long long)row->cpu->row_most);
    return true;
}
