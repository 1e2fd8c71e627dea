/* interrupt.h: work that ends early, and keeps what it has, when the user asks for it. */
#ifndef LAB_INTERRUPT_H
#define LAB_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT is only noted, and `hint` is written to stderr; the second does what the first would have done.
 * Nothing changes where SIGINT is ignored. `hint` must live on. */
void lab_interrupt_listen(const char *hint);

/* Whether it came. */
bool lab_interrupted(void);

#endif
