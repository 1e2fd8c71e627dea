/* suggest.c: edit distance with transpositions, for short words. */
#include "lab/base/suggest.h"

#include <string.h>

enum { LONGEST = 31 };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The number of insertions, deletions, replacements and transpositions that turn a into b. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m) {
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = smaller(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                              1 + smaller(d[i - 1][j], d[i][j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = smaller(d[i][j], 1 + d[i - 2][j - 2]);
        }
    }
    return d[n][m];
}

void lab_suggest(lab_suggestion *best, const char *misspelt, const char *known) {
    const size_t n = strlen(misspelt), m = strlen(known);
    if (n > LONGEST || m > LONGEST)
        return;
    const size_t limit = n / 3 > 2 ? n / 3 : 2;
    const size_t distance = edit_distance(misspelt, n, known, m);
    if (distance < n && distance <= limit && (!best->word || distance < best->distance)) {
        best->word = known;
        best->distance = distance;
    }
}
