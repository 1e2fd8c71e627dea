/* markup.c: escaping, and a formatted writer that always escapes. */
#include "lab/base/markup.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lab/base/characters.h"
#include "lab/base/table.h"

/* ------------------------------------------------------------------------- pages */

static const char *entity_of(uint32_t code) {
    switch (code) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\n':
    case '\t':
        return " ";
    default:
        return lab_is_harmful(code) ? "\xef\xbf\xbd" : NULL;
    }
}

void lab_markup_text(FILE *out, const char *text) {
    size_t length;
    for (; text && *text; text += length) {
        const char *entity = entity_of(lab_next_character(text, &length));
        if (entity)
            fputs(entity, out);
        else
            fwrite(text, 1, length, out);
    }
}

static double or_zero(double value) {
    return isfinite(value) ? value : 0.0;
}

void lab_markup(FILE *out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        fwrite(format, 1, plain, out);
        format += plain;
        if (!*format)
            break;
        char directive[16]; /* "%8.3f": the directive alone */
        const size_t length = 1 + strspn(format + 1, "-+ 0123456789.z");
        const char kind = format[length];
        if (length + 2 > sizeof directive || !kind)
            break;
        memcpy(directive, format, length + 1);
        directive[length + 1] = '\0';
        format += length + 1;
        if (kind == 's')
            lab_markup_text(out, va_arg(list, const char *));
        else if (kind == 'd')
            fprintf(out, directive, va_arg(list, int));
        else if (kind == 'u')
            fprintf(out, directive, va_arg(list, size_t));
        else if (kind == '%')
            fputc('%', out);
        else
            fprintf(out, directive, or_zero(va_arg(list, double)));
    }
    va_end(list);
}

/* ---------------------------------------------------------- Markdown and terminals */

void lab_markup_code(FILE *out, const char *text) {
    size_t length;
    if (!text || !*text)
        return;
    fputc('`', out);
    for (; *text; text += length) {
        const uint32_t code = lab_next_character(text, &length);
        if (code == '|')
            fputs("\\|", out);
        else if (code == '`')
            fputc('\'', out);
        else if (code == '\n' || code == '\t')
            fputc(' ', out);
        else if (lab_is_harmful(code))
            fputs("\xef\xbf\xbd", out);
        else
            fwrite(text, 1, length, out);
    }
    fputc('`', out);
}

const char *lab_plain_text(char *buf, size_t n, const char *text, size_t columns) {
    const bool cut = lab_text_width(text) > columns;
    const size_t shown = cut && columns > 0 ? columns - 1 : columns;
    size_t used = 0, length;
    for (size_t column = 0; *text && column < shown; column++, text += length) {
        const uint32_t code = lab_next_character(text, &length);
        const bool bad = lab_is_harmful(code);
        if (used + (bad ? 1 : length) + 2 > n)
            break;
        memcpy(buf + used, bad ? "?" : text, bad ? 1 : length);
        used += bad ? 1 : length;
    }
    if (cut && columns > 0 && used + 2 <= n)
        buf[used++] = '~';
    buf[used] = '\0';
    return buf;
}
