/* reference_store.c: a table of answers, keyed by problem, seed and rows. */
#include "lab/verify/reference_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lab/tensors/buffer.h"

/* The key of an answer. Two questions are the same if all fields are. */
typedef struct question {
    char line[LAB_SPEC_MAX]; /* the problem's line, which determines it */
    uint64_t seed, rows_hash;
    int64_t count;
    int orders[LAB_SETS_MAX];
} question;

typedef struct kept {
    struct kept *next;
    question asked;
    lab_references answers;
} kept;

enum { BUCKETS = 1 << 12 };

struct lab_reference_store {
    pthread_mutex_t lock;
    size_t bytes, bytes_most, found;
    kept *bucket[BUCKETS];
};

lab_reference_store *lab_reference_store_create(size_t bytes_most) {
    lab_reference_store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->bytes_most = bytes_most;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void lab_reference_store_destroy(lab_reference_store *s) {
    if (!s)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (kept *k = s->bucket[i], *next; k; k = next) {
            next = k->next;
            lab_references_free(&k->answers);
            free(k);
        }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Hash the fields of the rows, not the padding between them. */
static uint64_t hash_rows(const lab_row *rows, int64_t count) {
    uint64_t hash = 1;
    for (int64_t n = 0; n < count; n++) {
        const int64_t fields[] = {rows[n].b, rows[n].h, rows[n].i, rows[n].set};
        hash = lab_hash(hash, fields, sizeof fields);
    }
    return hash;
}

static void put(question *out, const lab_reference_question *q) {
    memset(out, 0, sizeof *out);
    lab_spec_print(&q->tensors->spec, out->line, sizeof out->line);
    out->seed = q->seed;
    out->rows_hash = hash_rows(q->rows, q->count);
    out->count = q->count;
    memcpy(out->orders, q->orders, sizeof out->orders);
}

static kept **bucket_of(lab_reference_store *s, const question *asked) {
    return &s->bucket[lab_hash(1, asked, sizeof *asked) % BUCKETS];
}

static kept *find(lab_reference_store *s, const question *asked) {
    kept *k = *bucket_of(s, asked);
    while (k && memcmp(&k->asked, asked, sizeof *asked) != 0)
        k = k->next;
    return k;
}

const lab_references *lab_reference_store_find(lab_reference_store *s,
                                               const lab_reference_question *q) {
    question asked;
    put(&asked, q);
    pthread_mutex_lock(&s->lock);
    const kept *k = find(s, &asked);
    s->found += k != NULL;
    pthread_mutex_unlock(&s->lock);
    return k ? &k->answers : NULL;
}

bool lab_reference_store_keep(lab_reference_store *s, const lab_reference_question *q,
                              lab_references *made) {
    const size_t bytes = lab_references_bytes(made->count, made->width, made->most);
    kept *k = calloc(1, sizeof *k);
    if (!k)
        return false;
    put(&k->asked, q);
    pthread_mutex_lock(&s->lock);
    const bool fits = s->bytes + bytes <= s->bytes_most && !find(s, &k->asked);
    if (fits) {
        kept **head = bucket_of(s, &k->asked);
        k->answers = *made;
        k->next = *head;
        *head = k;
        s->bytes += bytes;
        *made = (lab_references){.count = 0};
    }
    pthread_mutex_unlock(&s->lock);
    if (!fits)
        free(k);
    return fits;
}

size_t lab_reference_store_found(lab_reference_store *s) {
    pthread_mutex_lock(&s->lock);
    const size_t found = s->found;
    pthread_mutex_unlock(&s->lock);
    return found;
}
