/* kvframe_policy.h: eviction policies for kvframe in C, or in anything that can call itself so.
 *
 * Version 1.0 of the interface. A policy is a `kvf_eviction_v1`: a table of functions, handed to
 * kvframe in a PyCapsule called KVF_CAPSULE (or function by function: kvframe.native.NativePolicy).
 * Another major version is another interface, with another struct and capsule name; a table of any
 * version but this one is refused by name.
 *
 * THIS IS UNSAFE, as every C extension is. The core checks what a policy answers, never what it does
 * to memory. In particular a function
 *   - runs inside an operation of the cache, under its lock: it must return soon, must not wait, and
 *     must not call the cache that called it (which is refused, as an error, where it can be);
 *   - is called without the interpreter's lock: it must not touch Python, unless it takes that lock;
 *   - may be called from any thread, but for one state from one thread at a time;
 *   - must not throw, unwind or longjmp out of itself;
 *   - may read and write its own state and memory, and read what it is given, until it returns.
 *
 * Blocks are numbered from 0 and numbers are used again. A block's life, as a policy sees it:
 *   insert  hit*  release  (on_evictable  (acquire  hit*  release)* ...)  remove
 * `now` is the core's logical clock: one tick an operation that changed something, never wall time.
 *
 * Events and `score` answer 0. Anything else is an error: what an event failed on is missing in the
 * policy's state, so it is not called any more and the built-in order (least recently used) decides;
 * after an error of `score` or `victim` the built-in order takes that one decision. Either is counted,
 * and one warning names the policy and its package. With on_error = "raise" it ends decisions.
 */
#ifndef KVFRAME_POLICY_H
#define KVFRAME_POLICY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVF_MAGIC 0x4546564Bu /* "KVFE" in memory */
#define KVF_MAJOR 1
#define KVF_MINOR 0
#define KVF_CAPSULE "kvframe.eviction.v1"

#define KVF_NONE 0xFFFFFFFFu /* no block, no place, no victim */
#define KVF_ALL 0xFFFFFFFFu  /* window: every candidate */
#define KVF_NEVER 0xFFFFFFFFu /* a next use that is not known */

/* Places of `columns` in `score`. KVF_WANT(place) in `wants` asks for a column. */
enum kvf_column {
    KVF_BLOCK = 0,     /* uint32_t: the block */
    KVF_DEPTH,         /* uint32_t: its place in its prefix, 0 for the first */
    KVF_PARENT,        /* uint32_t: place in this offer of the block it follows, or KVF_NONE */
    KVF_LAST_USE,      /* uint64_t: tick of the last hit or release */
    KVF_INSERTED,      /* uint64_t: tick at which it became findable */
    KVF_USES,          /* uint32_t: requests that used it, the one that computed it included */
    KVF_REACH,         /* uint32_t: tokens of the longest request that used it */
    KVF_SESSION,       /* uint64_t: session of the request that used it last */
    KVF_TURN,          /* uint32_t: turn of that request */
    KVF_REQUEST_CLASS, /* uint32_t: class of that request */
    KVF_PRIORITY,      /* int32_t: priority of that request */
    KVF_NEXT_USE,      /* uint32_t: when that request expects its next use, or KVF_NEVER */
    KVF_COLUMNS
};
#define KVF_WANT(column) (1u << (column))

/* What `insert` is to be told of new blocks; without the bit the pointer is null. */
#define KVF_WANT_PARENTS (1u << 16) /* uint32_t each: the block before it, or KVF_NONE */
#define KVF_WANT_DEPTHS (1u << 17)  /* uint32_t each: its place in its prefix */
#define KVF_WANT_KEYS (1u << 18)    /* 2 uint64_t each, low word first: its key, for ghosts */
/* What `access` is to say of the blocks of `insert` and `hit`; without the bit it is null. */
#define KVF_WANT_NEXT_USES (1u << 19) /* uint32_t each: when it is used next, or KVF_NEVER */

/* Why a block is gone. */
#define KVF_EVICTED 0
#define KVF_INVALIDATED 1

/* What a policy is made for. */
typedef struct kvf_config {
    uint32_t size;       /* bytes of this struct */
    uint32_t blocks;     /* block numbers are below this */
    uint32_t block_size; /* tokens of a block */
    uint32_t n_options;
    const double *options; /* values of the options, in the order that the package gives them */
} kvf_config;

/* The request that an event comes from. */
typedef struct kvf_access {
    uint64_t session; /* 0 if the engine did not tell */
    uint32_t turn;
    uint32_t request_class;
    int32_t priority;
    uint32_t tokens; /* its known length */
    const uint32_t *next_uses; /* of each block of the event, if the policy wants them */
} kvf_access;

typedef struct kvf_eviction_v1 {
    /* Every version begins with these. */
    uint32_t magic; /* KVF_MAGIC */
    uint16_t major; /* KVF_MAJOR */
    uint16_t minor; /* KVF_MINOR */
    uint32_t size;  /* sizeof(kvf_eviction_v1) */

    uint32_t wants;  /* columns and facts that it reads */
    uint32_t window; /* candidates offered to `score` at a time: 0 for 256, or KVF_ALL */

    /* Memory that the core gives: `memory` below is the start of block_bytes for each block, zeroed
     * when a number is seen for the first time and never after; aligned to 16 bytes; it may move
     * between calls. Null if block_bytes is 0. */
    uint32_t block_bytes;

    /* A state that the core gives, where there is no `create`: it begins as a copy of the
     * state_bytes at `initial`, or zeroed, and stays where it is. */
    uint32_t state_bytes;
    uint32_t reserved; /* 0 */
    const void *initial;

    /* Makes the state of one cache; null refuses. Called once, before anything else. */
    void *(*create)(const kvf_config *config);
    /* Ends it. Called once for each state made, last. */
    void (*destroy)(void *state);
    /* The cache is about to grow to `blocks` blocks. An answer other than 0 refuses that. If this
     * function is null, a policy that has `create` cannot grow. */
    int32_t (*resize)(void *state, uint32_t blocks);

    /* Blocks became findable, in the order of their prefix; they have an owner. */
    int32_t (*insert)(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *blocks,
                      const uint32_t *parents, const uint32_t *depths, const uint64_t *keys,
                      const kvf_access *access);
    /* An allocation found them. */
    int32_t (*hit)(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *blocks,
                   const kvf_access *access);
    /* They had no owner and have one now: they may not be evicted. */
    int32_t (*acquire)(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *blocks);
    /* The last owner of each left. In the order of their prefix: the last one is evicted first. */
    int32_t (*release)(void *state, void *memory, uint64_t now, uint32_t n, const uint32_t *blocks);
    /* With `victim` only: from now on, and until acquired or removed, these may be evicted: they have
     * no owner, and no findable block follows them. */
    int32_t (*on_evictable)(void *state, void *memory, uint64_t now, uint32_t n,
                            const uint32_t *blocks);
    /* One is no longer findable, whatever it was before. */
    int32_t (*remove)(void *state, void *memory, uint64_t now, uint32_t block, uint32_t why);

    /* Exactly one of these two decides. */

    /* The block to evict next: an evictable one; KVF_NONE if there is none; below 0: an error. It is
     * removed at once, and its parent may become evictable, before the next is asked for. */
    int64_t (*victim)(void *state, void *memory, uint64_t now);
    /* Scores for n candidates, which may all be evicted, each after its children: the lowest first.
     * The policy fills all of `out`, without NaN. The core calls this once for each operation that
     * needs victims. */
    int32_t (*score)(void *state, void *memory, uint64_t now, uint32_t n,
                     const void *const *columns, double *out);
} kvf_eviction_v1;

/* The fixed fields; name the functions after it: static const kvf_eviction_v1 table =
 * {KVF_HEAD, .victim = my_victim}; */
#define KVF_HEAD                                                                                   \
    .magic = KVF_MAGIC, .major = KVF_MAJOR, .minor = KVF_MINOR, .size = sizeof(kvf_eviction_v1)

#ifdef __cplusplus
}
#endif

#endif
