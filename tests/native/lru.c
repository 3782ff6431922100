/* Least recently used, three times over the same interface: an order of its own (a linked list), a
 * score by a column, and a score by its own books. Each must evict exactly as the built-in lru. */
#include <stddef.h>
#include <stdlib.h>

#include "kvframe_policy.h"

typedef struct {
    uint32_t before, after; /* die before it, and after it */
    uint32_t listed, leaf;
} block;

typedef struct {
    uint32_t head, tail;
} list;

static int64_t alive; /* states made and not ended */

int64_t states(void) { return alive; }

static void *create(const kvf_config *config) {
    list *l = config->size >= sizeof *config ? malloc(sizeof *l) : NULL;
    if (l) {
        l->head = l->tail = KVF_NONE;
        alive++;
    }
    return l;
}

static void destroy(void *state) {
    free(state);
    alive--;
}

static int32_t resize(void *state, uint32_t blocks) {
    (void)state, (void)blocks; /* what it keeps of a block, the core keeps for it */
    return 0;
}

static void leave(list *l, block *blocks, uint32_t b) {
    block *x = &blocks[b];
    if (!x->listed) return;
    if (x->before == KVF_NONE) l->head = x->after;
    else blocks[x->before].after = x->after;
    if (x->after == KVF_NONE) l->tail = x->before;
    else blocks[x->after].before = x->before;
    x->listed = x->leaf = 0;
}

static int32_t acquire(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *ids) {
    (void)now;
    for (uint32_t i = 0; i < n; i++) leave(state, memory, ids[i]);
    return 0;
}

static int32_t release(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *ids) {
    list *l = state;
    block *blocks = memory;
    (void)now;
    while (n-- > 0) {
        block *x = &blocks[ids[n]];
        *x = (block){.before = l->tail, .after = KVF_NONE, .listed = 1};
        if (l->tail == KVF_NONE) l->head = ids[n];
        else blocks[l->tail].after = ids[n];
        l->tail = ids[n];
    }
    return 0;
}

static int32_t on_evictable(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *ids) {
    block *blocks = memory;
    (void)state, (void)now;
    for (uint32_t i = 0; i < n; i++) blocks[ids[i]].leaf = 1;
    return 0;
}

static int32_t removed(void *state, void *memory, uint64_t now, uint32_t b, uint32_t why) {
    (void)now, (void)why;
    leave(state, memory, b);
    return 0;
}

static int64_t victim(void *state, void *memory, uint64_t now) {
    const list *l = state;
    const block *blocks = memory;
    uint32_t b = l->head;
    (void)now;
    while (b != KVF_NONE && !blocks[b].leaf) b = blocks[b].after;
    return b;
}

const kvf_eviction_v1 order = {
    KVF_HEAD,
    .block_bytes = sizeof(block),
    .create = create,
    .destroy = destroy,
    .resize = resize,
    .acquire = acquire,
    .release = release,
    .on_evictable = on_evictable,
    .remove = removed,
    .victim = victim,
};

static int32_t by_column(void *state, void *memory, uint64_t now, uint32_t n,
                         const void *const *columns, double *out) {
    const uint64_t *last_use = columns[KVF_LAST_USE];
    (void)state, (void)memory, (void)now;
    for (uint32_t i = 0; i < n; i++) out[i] = (double)last_use[i];
    return 0;
}

const kvf_eviction_v1 column = {
    KVF_HEAD, .wants = KVF_WANT(KVF_LAST_USE), .window = KVF_ALL, .score = by_column};

static int32_t note(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *ids) {
    uint64_t *released = memory;
    (void)state;
    for (uint32_t i = 0; i < n; i++) released[ids[i]] = now;
    return 0;
}

static int32_t by_books(void *state, void *memory, uint64_t now, uint32_t n,
                        const void *const *columns, double *out) {
    const uint64_t *released = memory;
    const uint32_t *ids = columns[KVF_BLOCK];
    (void)state, (void)now;
    for (uint32_t i = 0; i < n; i++) out[i] = (double)released[ids[i]];
    return 0;
}

const kvf_eviction_v1 books = {KVF_HEAD,
                               .wants = KVF_WANT(KVF_BLOCK),
                               .window = KVF_ALL,
                               .block_bytes = sizeof(uint64_t),
                               .release = note,
                               .score = by_books};

/* Sizes and places, for comparison with what the other side has. */
const uint32_t layout[] = {
    sizeof(kvf_eviction_v1),
    sizeof(kvf_config),
    sizeof(kvf_access),
    offsetof(kvf_eviction_v1, wants),
    offsetof(kvf_eviction_v1, initial),
    offsetof(kvf_eviction_v1, create),
    offsetof(kvf_eviction_v1, victim),
    offsetof(kvf_eviction_v1, score),
    KVF_COLUMNS,
};
