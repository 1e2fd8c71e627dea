/* message.c: formats error messages. */
#include "lab/base/message.h"

#include <stdarg.h>
#include <stdio.h>

#include "lab/base/clean_text.h"

bool lab_fail(lab_message *why, const char *format, ...) {
    if (why) {
        va_list list;
        va_start(list, format);
        vsnprintf(why->text, sizeof why->text, format, list);
        va_end(list);
        lab_clean_line(why->text);
    }
    return false;
}
