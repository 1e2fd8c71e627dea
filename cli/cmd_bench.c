/* cmd_bench.c: attest bench. */
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/self_check.h"
#include "cli/session.h"

cli_exit cli_bench(const cli_options *o) {
    cli_session session;
    cli_exit result = cli_session_begin(&session, o, "seed");
    if (result == CLI_HOLDS)
        result = o->self_check || o->inject > 0.0 ? cli_self_check(&session)
                                                  : cli_bench_session(&session);
    cli_session_close(&session);
    return result;
}
