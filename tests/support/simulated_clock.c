/* simulated_clock.c: what everything costs on a machine with one speed. */
#include "tests/support/simulated_clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "attest.h"
#include "lab/base/clock.h"
#include "lab/base/entropy.h"
#include "lab/base/random.h"
#include "lab/subject/device_timer.h"
#include "lab/subject/saboteur_hands.h"
#include "lab/subject/saboteur_plot.h"
#include "lab/subject/subject.h"
#include "lab/tensors/tensors_turn.h"
#include "lab/verify/verify.h"

/* In nanoseconds. A call costs something even if it does nothing; one that computes pays for its operations or for its bytes, whichever is more. Changing
 * inputs takes longer than the pause after which some saboteurs compute. */
enum { READING = 25, OVERHEAD = 200, CHANGE = 5000, JUDGEMENT = 100000, SAMPLE = 1000000 };
static const double flops_per_ns = 2.0, bytes_per_ns = 4.0, copied_per_ns = 8.0;

static _Atomic uint64_t now;
static _Atomic uint64_t call_ns;  /* of the problem that was prepared last */
static pthread_t tester, awaited; /* the thread that the tester waits for */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static lab_random entropy;

void simulated_clock_start(void) {
    tester = awaited = pthread_self();
    lab_random_seed(&entropy, 1, 0);
}

static void spend(double ns) {
    now += (uint64_t)ns;
}

/* ------------------------------------------------------------------------- the clock */

uint64_t __wrap_lab_clock_ns(void);
uint64_t __wrap_lab_clock_ns(void) {
    return now += READING;
}

uint64_t __wrap_lab_entropy(void);
uint64_t __wrap_lab_entropy(void) {
    return lab_random_bits(&entropy);
}

/* ----------------------------------------------------------------------------- calls */

att_status __real_lab_subject_prepare(lab_prepared *out, const lab_subject *subject,
                                      const lab_spec *spec, lab_message *why);
att_status __wrap_lab_subject_prepare(lab_prepared *out, const lab_subject *subject,
                                      const lab_spec *spec, lab_message *why);
att_status __wrap_lab_subject_prepare(lab_prepared *out, const lab_subject *subject,
                                      const lab_spec *spec, lab_message *why) {
    const double computing = lab_spec_flops(spec) / flops_per_ns;
    const double reading = lab_spec_bytes(spec) / bytes_per_ns;
    call_ns = (uint64_t)(computing > reading ? computing : reading);
    return __real_lab_subject_prepare(out, subject, spec, why);
}

static void begin_call(void) {
    pthread_mutex_lock(&lock);
    while (!pthread_equal(pthread_self(), tester) && !pthread_equal(pthread_self(), awaited))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    spend((double)call_ns);
}

static void await(pthread_t thread) {
    pthread_mutex_lock(&lock);
    awaited = thread;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result) {
    await(thread);
    const int code = __real_pthread_join(thread, result);
    await(tester); /* a later thread may get the same name */
    return code;
}

#define RUN(function, arguments)                                                               \
    att_status __real_##function(const att_plan *plan, const arguments *args, void *workspace, \
                                 void *stream);                                                \
    att_status __wrap_##function(const att_plan *plan, const arguments *args, void *workspace, \
                                 void *stream);                                                \
    att_status __wrap_##function(const att_plan *plan, const arguments *args, void *workspace, \
                                 void *stream) {                                               \
        begin_call();                                                                          \
        return __real_##function(plan, args, workspace, stream);                               \
    }

RUN(att_plan_run, att_args)
RUN(att_backward_run, att_args)
RUN(att_merge_run, att_merge_args)
RUN(att_moe_run, att_moe_args)

att_status __real_lab_prepared_run(const lab_prepared *prepared, const lab_args *args,
                                   void *workspace, void *stream, lab_message *why);
att_status __wrap_lab_prepared_run(const lab_prepared *prepared, const lab_args *args,
                                   void *workspace, void *stream, lab_message *why);
att_status __wrap_lab_prepared_run(const lab_prepared *prepared, const lab_args *args,
                                   void *workspace, void *stream, lab_message *why) {
    spend(OVERHEAD);
    return __real_lab_prepared_run(prepared, args, workspace, stream, why);
}

bool __real_lab_hands_fill(lab_hands *h, void *to, unsigned char value, size_t bytes,
                           void *stream);
bool __wrap_lab_hands_fill(lab_hands *h, void *to, unsigned char value, size_t bytes,
                           void *stream);
bool __wrap_lab_hands_fill(lab_hands *h, void *to, unsigned char value, size_t bytes,
                           void *stream) {
    spend((double)bytes / copied_per_ns);
    return __real_lab_hands_fill(h, to, value, bytes, stream);
}

bool __real_lab_hands_copy(lab_hands *h, void *to, const void *from, size_t bytes,
                           void *stream);
bool __wrap_lab_hands_copy(lab_hands *h, void *to, const void *from, size_t bytes,
                           void *stream);
bool __wrap_lab_hands_copy(lab_hands *h, void *to, const void *from, size_t bytes,
                           void *stream) {
    spend((double)bytes / copied_per_ns);
    return __real_lab_hands_copy(h, to, from, bytes, stream);
}

uint64_t __real_lab_plot_hash_inputs(const lab_plot *p);
uint64_t __wrap_lab_plot_hash_inputs(const lab_plot *p);
uint64_t __wrap_lab_plot_hash_inputs(const lab_plot *p) {
    for (int i = 0; i < p->inputs; i++)
        spend((double)p->input[i].bytes / copied_per_ns);
    return __real_lab_plot_hash_inputs(p);
}

/* ----------------------------------------------------------------------- the harness */

/* The GPU has a clock of its own. */
bool __real_lab_device_timer_sample(lab_device_timer *t, double *ns, lab_message *why);
bool __wrap_lab_device_timer_sample(lab_device_timer *t, double *ns, lab_message *why);
bool __wrap_lab_device_timer_sample(lab_device_timer *t, double *ns, lab_message *why) {
    spend(SAMPLE);
    return __real_lab_device_timer_sample(t, ns, why);
}

void __real_lab_tensors_turn(lab_tensors *t, uint64_t seed);
void __wrap_lab_tensors_turn(lab_tensors *t, uint64_t seed);
void __wrap_lab_tensors_turn(lab_tensors *t, uint64_t seed) {
    spend(CHANGE);
    __real_lab_tensors_turn(t, seed);
}

void __real_lab_tensors_poison_outputs(lab_tensors *t);
void __wrap_lab_tensors_poison_outputs(lab_tensors *t);
void __wrap_lab_tensors_poison_outputs(lab_tensors *t) {
    spend(CHANGE);
    __real_lab_tensors_poison_outputs(t);
}

void __real_lab_verify_outputs(lab_verify_result *r, const lab_tensors *t,
                               const lab_verify_options *options);
void __wrap_lab_verify_outputs(lab_verify_result *r, const lab_tensors *t,
                               const lab_verify_options *options);
void __wrap_lab_verify_outputs(lab_verify_result *r, const lab_tensors *t,
                               const lab_verify_options *options) {
    spend(JUDGEMENT);
    __real_lab_verify_outputs(r, t, options);
}
