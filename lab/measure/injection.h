/* injection.h: variables of the environment under which a measurement proves nothing. */
#ifndef LAB_INJECTION_H
#define LAB_INJECTION_H

#include <stdbool.h>

#include "lab/base/message.h"

/* Is one of them set? `why` then names it and what it does. They put code into the program, or another file in the place of
 * the driver or of the attested code, or change what is computed or how long it takes. */
bool lab_injection_found(lab_message *why);

#endif
