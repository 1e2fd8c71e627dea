/* agreement.c: sorts the claims by problem and compares each with the one in the middle. */
#include "lab/evidence/agreement.h"

#include <stdlib.h>

/* How far bars may be apart. Where every row was judged, only compilers and libm make a
 * difference to the plain reference; where rows were drawn, also which ones. The largest seen
 * are 1 and 4.4. */
static const double apart_all = 2.0, apart_drawn = 32.0;

bool lab_claims_add(lab_claims *claims, const lab_claim *claim) {
    if (claims->count == claims->room) {
        const size_t room = claims->room ? 2 * claims->room : 1024;
        lab_claim *grown = realloc(claims->list, room * sizeof *grown);
        if (!grown)
            return false;
        claims->list = grown;
        claims->room = room;
    }
    claims->list[claims->count++] = *claim;
    return true;
}

void lab_claims_free(lab_claims *claims) {
    free(claims->list);
    *claims = (lab_claims){.list = NULL};
}

static int by_key(const void *a, const void *b) {
    const lab_claim *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* What is compared: a number of each claim, and how far two may be apart. */
typedef struct aspect {
    const char *field;
    double (*of)(const lab_claim *claim);
    int (*order)(const void *a, const void *b);
    double (*apart)(const lab_claim *a, const lab_claim *b);
} aspect;

static double total_of(const lab_claim *claim) {
    return claim->rows_total;
}

static double checked_of(const lab_claim *claim) {
    return claim->rows_checked;
}

static double bar_of(const lab_claim *claim) {
    return claim->bar;
}

static int order(double a, double b) {
    return (a > b) - (a < b);
}

static int by_total(const void *a, const void *b) {
    return order(total_of(a), total_of(b));
}

static int by_checked(const void *a, const void *b) {
    return order(checked_of(a), checked_of(b));
}

static int by_bar(const void *a, const void *b) {
    return order(bar_of(a), bar_of(b));
}

static double equal(const lab_claim *a, const lab_claim *b) {
    (void)a;
    (void)b;
    return 1.0;
}

static double apart_of_bars(const lab_claim *a, const lab_claim *b) {
    const bool all = a->rows_checked == a->rows_total && b->rows_checked == b->rows_total;
    return all ? apart_all : apart_drawn;
}

static const aspect aspects[] = {{"rows_total", total_of, by_total, equal},
                                 {"rows_checked", checked_of, by_checked, equal},
                                 {"bar", bar_of, by_bar, apart_of_bars}};

/* The claims about one problem: the middle one, by what is compared, is the usual one. */
static void compare_group(lab_claim *group, size_t count, const aspect *a,
                          lab_claim_report *report, void *context) {
    qsort(group, count, sizeof *group, a->order);
    const lab_claim *usual = &group[(count - 1) / 2];
    for (size_t i = 0; i < count; i++) {
        const lab_difference d = {.claim = &group[i],
                                  .usual = usual,
                                  .field = a->field,
                                  .value = a->of(&group[i]),
                                  .usual_value = a->of(usual)};
        const double apart = a->apart(d.claim, usual);
        if (d.value > apart * d.usual_value || d.usual_value > apart * d.value)
            report(context, &d);
    }
}

void lab_claims_compare(lab_claims *claims, lab_claim_report *report, void *context) {
    lab_claim *list = claims->list;
    if (claims->count > 0)
        qsort(list, claims->count, sizeof *list, by_key);
    for (size_t first = 0, end = 0; first < claims->count; first = end) {
        while (end < claims->count && list[end].key == list[first].key)
            end++;
        for (size_t k = 0; k < sizeof aspects / sizeof aspects[0]; k++)
            compare_group(&list[first], end - first, &aspects[k], report, context);
    }
}
