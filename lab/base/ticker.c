/* ticker.c: a thread that draws the bar and sleeps in between. */
#include "lab/base/ticker.h"

#include <time.h>

#include "lab/base/clock.h"

enum { TICK_NS = 250000000 };

static void draw(lab_ticker *t) {
    const double elapsed = 1e-9 * (double)(lab_clock_ns() - t->start_ns);
    char what[64];
    if (t->expected > 0.0)
        snprintf(what, sizeof what, "%.0f s of about %.0f", elapsed, t->expected);
    else
        snprintf(what, sizeof what, "%.0f s", elapsed);
    lab_progress_update(&t->bar, atomic_load(&t->done), what);
}

static void *tick(void *argument) {
    lab_ticker *t = argument;
    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        if (t->bar.live)
            until.tv_nsec += TICK_NS;
        else
            until.tv_sec += (time_t)(t->bar.line_ns / 1000000000) + 1;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&t->wake, &t->lock, &until);
        if (!t->stop)
            draw(t);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

void lab_ticker_start(lab_ticker *ticker, FILE *stream, const char *verb, size_t total,
                      double expected) {
    lab_progress_start(&ticker->bar, stream, verb, total);
    ticker->start_ns = lab_clock_ns();
    ticker->expected = expected;
    ticker->stop = false;
    atomic_init(&ticker->done, 0);
    pthread_mutex_init(&ticker->lock, NULL);
    pthread_cond_init(&ticker->wake, NULL);
    ticker->running = pthread_create(&ticker->thread, NULL, tick, ticker) == 0;
}

void lab_ticker_done(lab_ticker *ticker, size_t done) {
    atomic_store(&ticker->done, done);
}

void lab_ticker_stop(lab_ticker *ticker) {
    if (ticker->running) {
        pthread_mutex_lock(&ticker->lock);
        ticker->stop = true;
        pthread_cond_signal(&ticker->wake);
        pthread_mutex_unlock(&ticker->lock);
        pthread_join(ticker->thread, NULL);
    }
    pthread_mutex_destroy(&ticker->lock);
    pthread_cond_destroy(&ticker->wake);
    lab_progress_end(&ticker->bar);
}
