/* interrupt.c: records the first SIGINT in a flag. */
#include "lab/base/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t came;
static struct sigaction before;
static const char *said;

static void note(int number) {
    came = 1;
    sigaction(number, &before, NULL);
    const ssize_t written = write(STDERR_FILENO, said, strlen(said));
    (void)written;
}

void lab_interrupt_listen(const char *hint) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    said = hint;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

bool lab_interrupted(void) {
    return came;
}
