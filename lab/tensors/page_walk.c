/* page_walk.c: the parts of a mapping that were ever touched. */
#include "lab/tensors/page_walk.h"

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

/* Entries of /proc/self/pagemap: one 64-bit word per page. */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)

enum { ENTRIES = 4096 };

typedef struct walk {
    unsigned char *start, *end; /* of the memory asked about */
    unsigned char *run;         /* start of the run in progress, NULL: none */
    bool (*visit)(void *context, unsigned char *at, size_t n);
    void *context;
} walk;

static bool end_run(walk *w, unsigned char *end) {
    unsigned char *run = w->run < w->start ? w->start : w->run;
    w->run = NULL;
    return w->visit(w->context, run, (size_t)((end < w->end ? end : w->end) - run));
}

static bool step(walk *w, unsigned char *page, bool touched) {
    if (touched && !w->run)
        w->run = page;
    return touched || !w->run || end_run(w, page);
}

static bool walk_entries(walk *w, int map, uintptr_t first, uintptr_t last, uintptr_t page) {
    static _Thread_local uint64_t entries[ENTRIES];
    for (uintptr_t at = first; at < last;) {
        const uintptr_t left = (last - at + page - 1) / page;
        const size_t wanted = left < ENTRIES ? left : ENTRIES;
        const ssize_t got = pread(map, entries, wanted * 8, (off_t)(at / page * 8));
        const size_t count = got > 0 ? (size_t)got / 8 : 0;
        for (size_t i = 0; i < count; i++, at += page)
            if (!step(w, (unsigned char *)at, entries[i] & (PAGE_PRESENT | PAGE_SWAPPED)))
                return false;
        if (count == 0) { /* unknown: treat as touched */
            step(w, (unsigned char *)at, true);
            at = last;
        }
    }
    return !w->run || end_run(w, (unsigned char *)last);
}

bool lab_walk_pages(unsigned char *start, size_t bytes,
                    bool (*visit)(void *context, unsigned char *at, size_t n), void *context) {
    walk w = {.start = start, .end = start + bytes, .visit = visit, .context = context};
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (map < 0)
        return bytes == 0 || visit(context, start, bytes);
    const uintptr_t first = (uintptr_t)start / page * page;
    const bool ok = walk_entries(&w, map, first, (uintptr_t)start + bytes, page);
    close(map);
    return ok;
}
