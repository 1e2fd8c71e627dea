/* characters.c: UTF-8 decoding, and the characters that must not be shown to a reader. */
#include "lab/base/characters.h"

static bool continues(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

uint32_t lab_next_character(const char *text, size_t *length) {
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
                return LAB_REPLACEMENT;
            code = code << 6 | ((unsigned char)text[i] & 0x3f);
        }
        if (code < forms[form].least || code > 0x10ffff)
            return LAB_REPLACEMENT;
        *length = form + 1;
        return code;
    }
    return LAB_REPLACEMENT;
}

static bool is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/* Marks that reorder text or are invisible: with them one name could pass for another. */
static bool misleads(uint32_t code) {
    return code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff;
}

bool lab_is_harmful(uint32_t code) {
    return is_control(code) || misleads(code) || code == LAB_REPLACEMENT ||
           (code >= 0xd800 && code <= 0xdfff) || (code & 0xfffe) == 0xfffe;
}
