/* markup.c: escaping, and the formatted writer that cannot forget it. */
#include "lab/base/markup.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lab/base/table.h"

/* ------------------------------------------------------------------- characters */

enum { REPLACEMENT = 0xfffd };

static bool continues(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* The next character of UTF-8 text and its length in bytes; a broken sequence is one byte, U+FFFD. */
static uint32_t next_character(const char *text, size_t *length) {
    static const struct {
        unsigned char mask, mark;
        uint32_t least;
    } forms[] = {
        {0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    const unsigned char first = (unsigned char)*text;
    *length = 1;
    for (size_t form = 0; form < 4; form++) {
        if ((first & forms[form].mask) != forms[form].mark)
            continue;
        uint32_t code = first & (unsigned char)~forms[form].mask;
        for (size_t i = 1; i <= form; i++) {
            if (!continues(text[i]))
                return REPLACEMENT;
            code = code << 6 | ((unsigned char)text[i] & 0x3f);
        }
        if (code < forms[form].least || code > 0x10ffff)
            return REPLACEMENT;
        *length = form + 1;
        return code;
    }
    return REPLACEMENT;
}

static bool is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/* Marks that reorder what is shown, or cannot be seen: a name could pass for another. */
static bool misleads(uint32_t code) {
    return code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff;
}

static bool is_harmful(uint32_t code) {
    return is_control(code) || misleads(code) || (code >= 0xd800 && code <= 0xdfff) ||
           (code & 0xfffe) == 0xfffe;
}

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
        return is_harmful(code) || code == REPLACEMENT ? "\xef\xbf\xbd" : NULL;
    }
}

void lab_markup_text(FILE *out, const char *text) {
    size_t length;
    for (; text && *text; text += length) {
        const char *entity = entity_of(next_character(text, &length));
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
        char directive[16]; /* "%8.3f", without what follows it */
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
        const uint32_t code = next_character(text, &length);
        if (code == '|')
            fputs("\\|", out);
        else if (code == '`')
            fputc('\'', out);
        else if (code == '\n' || code == '\t')
            fputc(' ', out);
        else if (code == REPLACEMENT || is_harmful(code))
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
        const uint32_t code = next_character(text, &length);
        const bool bad = code == REPLACEMENT || is_harmful(code);
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
