/* paged_cache.h: the K/V cache of many sequences, in pages of one pool.
 *
 *     k, v       bfloat16 (layers, num_pages, page_size, heads_kv, d)
 *     page_list  the pages of one sequence, in order: its key j is in page id[j / page_size],
 *                row j % page_size, in every layer
 *
 * A sequence takes a page when it grows into it and returns all its pages when it ends, so that
 * memory is proportional to the tokens present, not to the longest possible sequence. */
#ifndef PAGED_CACHE_H
#define PAGED_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct paged_cache {
    int num_pages, page_size;
    size_t row;       /* elements of a key: heads_kv * d */
    uint16_t *k, *v;  /* see above */
    int32_t *free_id; /* a stack of the free pages */
    int free_count;
    int least_free; /* the fewest so far */
} paged_cache;

typedef struct page_list {
    int32_t *id; /* room for the longest sequence */
    int count;
} page_list;

/* False if memory ran out; cache_close() is still allowed. */
bool cache_open(paged_cache *cache, int layers, int num_pages, int page_size, size_t row);
void cache_close(paged_cache *cache);

/* The number of pages for that many keys. */
int cache_pages(const paged_cache *cache, int keys);

/* Take pages until the list has room for `keys` keys. False if too few are free: then none is
 * taken. */
bool cache_reserve(paged_cache *cache, page_list *list, int keys);

/* Return all pages of the list. */
void cache_release(paged_cache *cache, page_list *list);

/* The offset of layer `layer` in k and v, and of key j of a sequence, in elements. */
size_t cache_layer(const paged_cache *cache, int layer);
size_t cache_key(const paged_cache *cache, int layer, const page_list *list, int j);

#endif
