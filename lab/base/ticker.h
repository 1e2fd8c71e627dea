/* ticker.h: a progress bar for calls that cannot draw one themselves. */
#ifndef LAB_TICKER_H
#define LAB_TICKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "lab/base/progress.h"

typedef struct lab_ticker {
    lab_progress bar;
    uint64_t start_ns;
    double expected; /* total seconds; 0: unknown */
    atomic_size_t done;
    bool running, stop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} lab_ticker;

/* Start a bar of `total` steps on `stream`, drawn four times per second by its own thread, or
 * once per minute if the stream is not a terminal. The ticker must not move until it is
 * stopped. */
void lab_ticker_start(lab_ticker *ticker, FILE *stream, const char *verb, size_t total,
                      double expected);

/* Set the number of finished steps. */
void lab_ticker_done(lab_ticker *ticker, size_t done);

/* Erase the bar. */
void lab_ticker_stop(lab_ticker *ticker);

#endif
