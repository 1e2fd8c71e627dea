/* interrupt.h: work that stops early and keeps its results when the user presses Ctrl-C. */
#ifndef LAB_INTERRUPT_H
#define LAB_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT only sets a flag and writes `hint` to stderr; the second has its
 * usual effect. Nothing changes if SIGINT is ignored. `hint` must stay valid. */
void lab_interrupt_listen(const char *hint);

/* Whether SIGINT has arrived. */
bool lab_interrupted(void);

#endif
