/* injection.h: environment variables under which a measurement proves nothing. */
#ifndef LAB_INJECTION_H
#define LAB_INJECTION_H

#include <stdbool.h>

#include "lab/base/message.h"

/* Whether one of them is set; `why` then names it and its effect. They inject code into the
 * program, replace the driver or the attested code with another file, or change the results or
 * their timing. */
bool lab_injection_found(lab_message *why);

#endif
