/* page_walk.h: the parts of a mapping that were ever touched. */
#ifndef LAB_PAGE_WALK_H
#define LAB_PAGE_WALK_H

#include <stdbool.h>
#include <stddef.h>

/* Call `visit` with every run of touched pages of [start, start + bytes), clipped to it, in
 * order; stops if visit returns false. If the system does not tell, everything is one run. */
bool lab_walk_pages(unsigned char *start, size_t bytes,
                    bool (*visit)(void *context, unsigned char *at, size_t n), void *context);

#endif
