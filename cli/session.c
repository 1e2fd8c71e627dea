/* session.c: opens and closes what the verbs share. */
#include "cli/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/virtual_device.h"
#include "lab/base/clean_text.h"
#include "lab/base/machine.h"
#include "lab/base/screen.h"
#include "lab/base/suggest.h"
#include "lab/plan/kernel_names.h"
#include "lab/problem/lab_operation.h"
#include "lab/problem/suite.h"
#include "lab/subject/peer_crash.h"

cli_exit cli_exit_of_status(att_status status) {
    switch (status) {
    case ATT_OK:
        return CLI_HOLDS;
    case ATT_E_ARG:
    case ATT_E_STRUCT:
    case ATT_E_OVERFLOW:
    case ATT_E_ALIAS:
    case ATT_E_DATA:
        return CLI_USAGE;
    default:
        return CLI_NOT_POSSIBLE;
    }
}

cli_exit cli_library_failed(const cli_options *o) {
    const att_error error = *att_last_error();
    const char *nearest = o->kernel_count && strcmp(error.field, "kernel") == 0
                              ? lab_nearest_kernel(o->kernels[o->kernel_count - 1])
                              : NULL;
    cli_complain(o, "%s%s%s%s", error.text, nearest ? "; did you mean " : "",
                 nearest ? nearest : "", nearest ? "?" : "");
    return cli_exit_of_status(error.status);
}

static bool is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

/* The stream for text: cleaned, because much of it is untrusted. One stream per process, closed
 * at exit. */
static FILE *text_stream(FILE *under) {
    static FILE *clean[2];
    FILE **stream = &clean[under == stderr];
    if (!*stream)
        *stream = lab_clean_stream(under);
    return *stream ? *stream : under;
}

void cli_session_start(cli_session *session, const cli_options *o) {
    const bool taken = is_stdout(o->json) || is_stdout(o->csv);
    FILE *under = taken ? stderr : stdout;
    *session = (cli_session){.options = o, .text = text_stream(under)};
    lab_screen_open(session->text, under);
}

cli_exit cli_session_open_documents(cli_session *session) {
    const cli_options *o = session->options;
    if (is_stdout(o->json) && is_stdout(o->csv)) {
        cli_complain(o, "--json - and --csv - cannot both write to stdout");
        return CLI_USAGE;
    }
    if (!cli_sink_open(&session->json, o, o->json) || !cli_sink_open(&session->csv, o, o->csv))
        return CLI_NOT_POSSIBLE;
    return CLI_HOLDS;
}

/* The kernel that context `i` is restricted to, or NULL. */
static const char *kernel_of(const cli_options *o, size_t i) {
    return o->kernel_count ? o->kernels[i % o->kernel_count] : NULL;
}

static cli_exit open_peers(cli_session *session) {
    const cli_options *o = session->options;
    lab_peer_limit(o->peer_limit);
    for (size_t i = 0; i < o->peer_count; i++) {
        lab_peer *peer = &session->peers[i];
        lab_message why;
        if (!lab_peer_load(peer, o->peers[i], &why)) {
            cli_complain(o, "--peer %s", why.text);
            return CLI_USAGE;
        }
        session->peer_count++;
        session->subjects[session->subject_count++] = lab_subject_peer(peer, session->ctx[0]);
    }
    return CLI_HOLDS;
}

cli_exit cli_session_open(cli_session *session) {
    const cli_options *o = session->options;
    const cli_exit result = cli_session_open_documents(session);
    if (result != CLI_HOLDS)
        return result;
    const size_t kernels = o->kernel_count ? o->kernel_count : 1;
    /* The demo verifies everything that it times: it needs no other evidence. On the virtual
     * GPU nothing has any. */
    const bool allow_unattested =
        o->allow_unattested || o->virtual_gpu || strcmp(o->verb, "demo") == 0;
    if (o->virtual_gpu)
        fprintf(session->text,
                "device: the virtual GPU; kernels run on the CPU, and times mean "
                "nothing\n");
    for (size_t i = 0; i < o->isa_count * kernels; i++) {
        const att_context_options options = {
            .size = sizeof options,
            .device = o->device,
            .device_index = o->device_index,
            .threads = (int32_t)o->threads,
            .isa = o->isa[i / kernels],
            .flags = (o->allow_slow ? ATT_ALLOW_SLOW : 0u) |
                     (allow_unattested ? ATT_ALLOW_UNATTESTED : 0u),
            .kernel = kernel_of(o, i),
            .rows_file = o->rows,
            .cache_dir = o->virtual_gpu ? cli_virtual_cache() : NULL,
        };
        if (att_context_create(&session->ctx[i], &options) != ATT_OK)
            return cli_library_failed(o);
        session->subjects[session->subject_count++] = lab_subject_attest(session->ctx[i]);
        session->ctx_count++;
    }
    return open_peers(session);
}

bool cli_apply_modifiers(const cli_options *o, lab_spec *spec) {
    for (size_t i = 0; i < o->modifier_count; i++) {
        const cli_modifier *m = &o->modifiers[i];
        lab_message why;
        const bool ok = m->name ? lab_spec_set(spec, m->name, m->value, &why)
                                : lab_spec_read(spec, m->value, &why);
        if (!ok)
            return cli_complain(o, "--%s: %s", m->flag, why.text);
    }
    return true;
}

/* Append `spec` with the flags applied; `origin` is the user's text, for messages. */
static bool add_spec(cli_session *session, const lab_spec *spec, const char *origin) {
    const cli_options *o = session->options;
    lab_spec *grown =
        realloc(session->specs, (session->spec_count + 1) * sizeof *session->specs);
    if (!grown)
        return cli_complain(o, "out of memory");
    session->specs = grown;
    lab_spec *added = &grown[session->spec_count];
    *added = *spec;
    lab_message why;
    if (!cli_apply_modifiers(o, added))
        return false;
    if (!lab_spec_finish(added, &why))
        return cli_complain(o, "%s%s%s", origin, *origin ? ": " : "", why.text);
    session->spec_count++;
    return true;
}

static bool add_suite(cli_session *session, const char *name) {
    lab_suite suite;
    lab_message why;
    if (!lab_suite_read(&suite, name, &why))
        return cli_complain(session->options, "%s", why.text);
    bool ok = true;
    for (size_t i = 0; ok && i < suite.count; i++)
        ok = add_spec(session, &suite.specs[i], name);
    lab_suite_free(&suite);
    return ok;
}

/* Complain of `text`, which cannot be read; of its prefix if it names no operation. */
static bool cannot_read(const cli_options *o, const char *text, const char *why) {
    const size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    char word[32], others[160] = "";
    size_t used = 0;
    lab_suggestion nearest = {0};
    snprintf(word, sizeof word, "%.*s:", (int)(length < 30 ? length : 30), text);
    for (size_t i = 0; lab_operation_at(i) && used < sizeof others; i++) {
        const char *prefix = lab_operation_at(i)->prefix;
        if (text[length] != ':' || strcmp(prefix, word) == 0)
            return cli_complain(o, "%s: %s", text, why);
        lab_suggest(&nearest, word, prefix);
        if (*prefix)
            used += (size_t)snprintf(others + used, sizeof others - used, " %s", prefix);
    }
    if (nearest.word)
        return cli_complain(o, "%s: there is no operation '%s'; did you mean '%s'?", text, word,
                            nearest.word);
    return cli_complain(o, "%s: there is no operation '%s'; there are%s", text, word, others);
}

static bool add_shape(cli_session *session, const char *text) {
    lab_spec spec;
    lab_message why;
    lab_spec_init(&spec);
    if (!lab_spec_read(&spec, text, &why))
        return cannot_read(session->options, text, why.text);
    return add_spec(session, &spec, text);
}

/* Add the default problems if the command line names neither a shape nor a suite. */
static bool add_default(cli_session *session, const char *default_suite) {
    const cli_options *o = session->options;
    if (o->modifier_count > 0) {
        lab_spec spec;
        lab_spec_init(&spec);
        return add_spec(session, &spec, "");
    }
    if (default_suite)
        return add_suite(session, default_suite);
    return cli_complain(o,
                        "expected a shape, as in 'attest %s b2h8s512d64'; see 'attest help %s'",
                        o->verb, o->verb);
}

static cli_exit read_problems(cli_session *session, const char *default_suite) {
    const cli_options *o = session->options;
    bool ok = true;
    for (size_t i = 0; ok && i < o->shape_count; i++)
        ok = add_shape(session, o->shapes[i]);
    for (size_t i = 0; ok && i < o->suite_count; i++)
        ok = add_suite(session, o->suites[i]);
    if (o->shape_count + o->suite_count == 0)
        ok = add_default(session, default_suite);
    if (ok && session->spec_count == 0)
        ok = cli_complain(o, "the suite has no problems");
    return ok ? CLI_HOLDS : CLI_USAGE;
}

cli_exit cli_session_begin(cli_session *session, const cli_options *o,
                           const char *default_suite) {
    cli_session_start(session, o);
    const cli_exit result = read_problems(session, default_suite);
    return result == CLI_HOLDS ? cli_session_open(session) : result;
}

/* Checked without --kernel: a device that lacks the kernel would report its id as a mistake. */
static cli_exit need_gpu(const cli_options *o) {
    const att_context_options options = {.size = sizeof options,
                                         .device = o->device,
                                         .device_index = o->device_index,
                                         .kernel = "",
                                         .rows_file = ""};
    att_context_info info = {.size = sizeof info};
    att_context *ctx = NULL;
    if (att_context_create(&ctx, &options) != ATT_OK || att_context_query(ctx, &info) != ATT_OK)
        return cli_library_failed(o);
    att_context_destroy(ctx);
    if (info.device == ATT_DEVICE_CUDA)
        return CLI_HOLDS;
    cli_complain(
        o, "a GPU is needed: the kernels of the CPU have no constants to vary, their tiles "
           "follow from the problem when a plan is made");
    return CLI_NOT_POSSIBLE;
}

cli_exit cli_session_begin_gpu(cli_session *session, const cli_options *o,
                               const char *default_suite) {
    cli_session_start(session, o);
    cli_exit result = read_problems(session, default_suite);
    if (result == CLI_HOLDS)
        result = need_gpu(o);
    return result == CLI_HOLDS ? cli_session_open(session) : result;
}

cli_exit cli_session_begin_problems(cli_session *session, const cli_options *o,
                                    const char *default_suite) {
    cli_session_start(session, o);
    const cli_exit result = read_problems(session, default_suite);
    return result == CLI_HOLDS ? cli_session_open_documents(session) : result;
}

cli_exit cli_session_finish(cli_session *session, json_t *document, cli_exit outcome) {
    const cli_options *o = session->options;
    if (!session->json.stream) {
        json_decref(document);
    } else {
        lab_message why;
        if (!lab_json_write(document, session->json.stream, &why)) {
            cli_complain(o, "%s", why.text);
            return CLI_NOT_POSSIBLE;
        }
        if (!cli_sink_commit(&session->json, o))
            return CLI_NOT_POSSIBLE;
    }
    return cli_sink_commit(&session->csv, o) ? outcome : CLI_NOT_POSSIBLE;
}

void cli_session_close(cli_session *session) {
    fflush(session->text);
    for (size_t i = 0; i < session->peer_count; i++)
        lab_peer_unload(&session->peers[i]);
    for (size_t i = 0; i < session->ctx_count; i++)
        att_context_destroy(session->ctx[i]);
    cli_sink_discard(&session->json);
    cli_sink_discard(&session->csv);
    free(session->specs);
}

void cli_format_flags(const cli_session *session, size_t subject_index, char *buf, size_t n) {
    const bool of_peer = subject_index >= session->ctx_count;
    const size_t ctx_index = of_peer ? 0 : subject_index;
    att_context_info info = {.size = sizeof info};
    if (att_context_query(session->ctx[ctx_index], &info) != ATT_OK)
        info = (att_context_info){.threads = 1};
    const cli_options *o = session->options;
    const char *kernel = kernel_of(o, ctx_index);
    char device[32] = "virtual";
    if (!o->virtual_gpu)
        snprintf(device, sizeof device, "cuda:%d", (int)info.device_index);
    int used = info.device == ATT_DEVICE_CUDA
                   ? snprintf(buf, n, "--device %s%s --seed %" PRIu64, device,
                              o->allow_slow ? " --allow-slow" : "", o->seed)
                   : snprintf(buf, n, "--isa %s --threads %d --seed %" PRIu64,
                              lab_isa_name(info.isa), (int)info.threads, o->seed);
    if (o->allow_unattested && used >= 0 && (size_t)used < n)
        used += snprintf(buf + used, n - (size_t)used, " --allow-unattested");
    if (of_peer && used >= 0 && (size_t)used < n)
        snprintf(buf + used, n - (size_t)used, " --peer '%s'",
                 session->peers[subject_index - session->ctx_count].file);
    else if (kernel && used >= 0 && (size_t)used < n)
        snprintf(buf + used, n - (size_t)used, " --kernel '%s'", kernel);
}
