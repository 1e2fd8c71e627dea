/* message.h: one sentence that says what went wrong, passed up by every lab function that can
 * fail. */
#ifndef LAB_MESSAGE_H
#define LAB_MESSAGE_H

#include <stdbool.h>

typedef struct lab_message {
    char text[512];
} lab_message;

/* Write the sentence, as one line without control codes, and return false, so that an error
 * path is `return lab_fail(why, ...)`. `why` may be NULL: the sentence is then dropped. */
bool lab_fail(lab_message *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
