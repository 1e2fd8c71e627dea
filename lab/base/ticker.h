/* ticker.h: a progress bar beside calls that cannot draw one themselves. */
#ifndef LAB_TICKER_H
#define LAB_TICKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "lab/base/progress.h"

typedef struct lab_ticker {
    lab_progress bar;
    uint64_t start_ns;
    double expected; /* seconds of the whole; 0: not known */
    atomic_size_t done;
    bool running, stop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} lab_ticker;

/* A bar of `total` steps on `stream`, drawn four times a second by a thread of its own, which sleeps a minute at a time where the
 * stream is no terminal. The ticker must stay where it is until it is stopped. */
void lab_ticker_start(lab_ticker *ticker, FILE *stream, const char *verb, size_t total,
                      double expected);

/* So many steps are done. */
void lab_ticker_done(lab_ticker *ticker, size_t done);

/* Erase the bar. */
void lab_ticker_stop(lab_ticker *ticker);

#endif
