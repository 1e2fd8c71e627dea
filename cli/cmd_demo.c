/* cmd_demo.c: attest demo, which `make run` runs. */
#include <stdio.h>

#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "lab/base/machine.h"

static void introduce(const cli_session *session) {
    att_context_info info = {.size = sizeof info};
    if (att_context_query(session->ctx[0], &info) != ATT_OK)
        return;
    if (info.device == ATT_DEVICE_CUDA)
        fprintf(session->text, "attest %s on %s: compute capability %d.%d, %d SMs\n",
                att_version(), info.gpu_name, (int)info.compute_capability / 10,
                (int)info.compute_capability % 10, (int)info.multiprocessors);
    else
        fprintf(session->text, "attest %s on %s: %s, %d thread%s\n", att_version(), info.name,
                lab_isa_name(info.isa), (int)info.threads, info.threads == 1 ? "" : "s");
    fputs("Attention, softmax(Q K^T) V, on random inputs: every problem is computed, checked\n"
          "against a float64 oracle, then timed.\n\n",
          session->text);
}

static void say_what_next(const cli_session *session) {
    const char *program = session->options->program;
    fprintf(session->text,
            "\n"
            "problem  b2h8s512d64 is batch 2, 8 heads, 512 rows and keys, head dimension 64\n"
            "error    the largest difference from the oracle\n"
            "of bar   its share of what is allowed: twice the error of a plain reference of\n"
            "         the same type, plus 4 ulp\n"
            "FLOP/s   of the visible (row, key) pairs\n\n"
            "What to try next:\n");
    static const char *const next[][2] = {
        {"explain b1h32hkv8s1sk4096d128,bf16", "which kernel decodes, and why not the others"},
        {"verify --suite edge", "the corners that break attention libraries"},
        {"help run", "attention on your own .npy files"},
    };
    for (size_t i = 0; i < sizeof next / sizeof next[0]; i++)
        fprintf(session->text, "  %s %-38s %s\n", program, next[i][0], next[i][1]);
}

cli_exit cli_demo(const cli_options *o) {
    cli_session session;
    cli_exit result = cli_session_begin(&session, o, "seed");
    if (result == CLI_HOLDS) {
        introduce(&session);
        result = cli_bench_session(&session);
        say_what_next(&session);
    }
    cli_session_close(&session);
    return result;
}
