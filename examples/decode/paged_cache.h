/* paged_cache.h: the K/V cache of many sequences, in pages of one pool.
 *
 *     k, v       bfloat16 (layers, num_pages, page_size, heads_kv, d)
 *     page_list  the pages of one sequence, in order: its key j lies in page id[j / page_size],
 *                row j % page_size, in every layer
 *
 * A sequence takes a page when it grows into it and gives all of them back when it ends, so
 * memory goes by the tokens there are, not by the longest sequence there may be. */
#ifndef PAGED_CACHE_H
#define PAGED_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct paged_cache {
    int num_pages, page_size;
    size_t row;       /* elements of a key: heads_kv * d */
    uint16_t *k, *v;  /* see above */
    int32_t *free_id; /* a stack of the pages that nobody has */
    int free_count;
    int least_free; /* the fewest there ever were */
} paged_cache;

typedef struct page_list {
    int32_t *id; /* room for the longest sequence */
    int count;
} page_list;

/* False where there is no memory; cache_close() is fine then too. */
bool cache_open(paged_cache *cache, int layers, int num_pages, int page_size, size_t row);
void cache_close(paged_cache *cache);

/* Pages for so many keys. */
int cache_pages(const paged_cache *cache, int keys);

/* Take pages until the list has room for `keys` keys. False where too few are free: then none is
 * taken. */
bool cache_reserve(paged_cache *cache, page_list *list, int keys);

/* Give all pages of the list back. */
void cache_release(paged_cache *cache, page_list *list);

/* Where layer `layer` begins in k and v, and where key j of a sequence lies, in elements. */
size_t cache_layer(const paged_cache *cache, int layer);
size_t cache_key(const paged_cache *cache, int layer, const page_list *list, int j);

#endif
