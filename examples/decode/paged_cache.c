/* paged_cache.c: a pool of pages and the stack of free ones. */
#include "paged_cache.h"

#include <stdlib.h>

bool cache_open(paged_cache *cache, int layers, int num_pages, int page_size, size_t row) {
    const size_t elements = (size_t)layers * (size_t)num_pages * (size_t)page_size * row;
    *cache = (paged_cache){
        .num_pages = num_pages,
        .page_size = page_size,
        .row = row,
        .k = malloc(elements * sizeof(uint16_t)),
        .v = malloc(elements * sizeof(uint16_t)),
        .free_id = malloc((size_t)num_pages * sizeof(int32_t)),
        .free_count = num_pages,
        .least_free = num_pages,
    };
    if (!cache->k || !cache->v || !cache->free_id)
        return false;
    for (int i = 0; i < num_pages; i++)
        cache->free_id[i] = i;
    return true;
}

void cache_close(paged_cache *cache) {
    free(cache->k);
    free(cache->v);
    free(cache->free_id);
    *cache = (paged_cache){0};
}

int cache_pages(const paged_cache *cache, int keys) {
    return (keys + cache->page_size - 1) / cache->page_size;
}

bool cache_reserve(paged_cache *cache, page_list *list, int keys) {
    const int wanted = cache_pages(cache, keys);
    if (wanted - list->count > cache->free_count)
        return false;
    while (list->count < wanted)
        list->id[list->count++] = cache->free_id[--cache->free_count];
    if (cache->free_count < cache->least_free)
        cache->least_free = cache->free_count;
    return true;
}

void cache_release(paged_cache *cache, page_list *list) {
    while (list->count > 0)
        cache->free_id[cache->free_count++] = list->id[--list->count];
}

size_t cache_layer(const paged_cache *cache, int layer) {
    return (size_t)layer * (size_t)cache->num_pages * (size_t)cache->page_size * cache->row;
}

size_t cache_key(const paged_cache *cache, int layer, const page_list *list, int j) {
    const size_t page = (size_t)list->id[j / cache->page_size];
    const size_t row = page * (size_t)cache->page_size + (size_t)(j % cache->page_size);
    return cache_layer(cache, layer) + row * cache->row;
}
