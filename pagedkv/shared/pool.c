/* The operations of one member on a shared pool, whole batches at a time.

   The bytes and the order of the steps are specified in layout.py; portable_operations.py takes the same steps in
   Python, and says why a kill between any two of them does no harm. This file repeats neither.

   It needs no headers but the compiler's own. Nothing here waits for another process. */

#include <stdint.h>

#define HOLDERS ((UINT64_C(1) << 48) - 1)
#define CACHED (UINT64_C(1) << 48)
#define CONTENT (UINT64_C(1) << 49)
#define ONE_GENERATION (UINT64_C(1) << 50)
#define NUM_SLOTS 48

/* compiled_operations.py has the same fields in the same order */
struct Member {
    uint64_t *words, *empty_hints, *content_hints;
    uint32_t *counts;      /* of slot 0; one row for each slot */
    uint64_t row;          /* from one slot's counts to the next slot's, in u32 */
    uint64_t num_blocks, slot;
    uint64_t empty_cursor, content_cursor; /* the number of the hints at which the last search ended */
    uint32_t *scratch;     /* one u32 for each block, all 0 between calls; not shared, like the rest from here on */
    uint32_t *cache;       /* the local cache: blocks that are CACHED by this member */
    uint64_t cache_size, num_cached;
    uint64_t *buckets;     /* of the prefix index, like the rest from here on; not used in a pool without one */
    uint8_t *records;
    uint64_t record_bytes, num_buckets, tokens_per_block;
    uint64_t *last_node;
};

/* With -DPAGEDKV_STEPS, for tests: a process counts down before each write to shared memory, and is killed at 0. */
#ifdef PAGEDKV_STEPS
extern int raise(int);
int64_t pagedkv_steps = -1;
int32_t pagedkv_step_signal = 9;
static void step(void) {
    if (pagedkv_steps >= 0 && pagedkv_steps-- == 0)
        raise(pagedkv_step_signal);
}
#else
static inline void step(void) {}
#endif

static inline uint64_t load(const uint64_t *at) {
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static inline int compare_and_swap(uint64_t *at, uint64_t *seen, uint64_t wanted) {
    step();
    return __atomic_compare_exchange_n(at, seen, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline void set_count(uint32_t *at, uint32_t count) {
    step();
    __atomic_store_n(at, count, __ATOMIC_RELEASE); /* after the CAS before it, for whoever adds counts up */
}

static inline uint32_t *own_counts(const struct Member *me) {
    return me->counts + me->slot * me->row;
}

static inline uint64_t num_hints(const struct Member *me) {
    return (me->num_blocks + 63) / 64;
}

static int set_hint(uint64_t *hints, uint64_t block) {
    uint64_t bit = UINT64_C(1) << block % 64;
    if (load(hints + block / 64) & bit)
        return 0;
    step();
    __atomic_fetch_or(hints + block / 64, bit, __ATOMIC_SEQ_CST);
    return 1;
}

static int set_hint_of_free(struct Member *me, uint64_t block, uint64_t word) {
    return set_hint(word & CONTENT ? me->content_hints : me->empty_hints, block);
}

/* ── allocate ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* 1: the block is ours now, with one reference. 0: somebody holds it. */
static int claim(struct Member *me, uint64_t block) {
    uint64_t seen = load(me->words + block);
    if (seen & HOLDERS)
        return 0;
    set_count(own_counts(me) + block, 1);
    do {
        if (seen & HOLDERS) {
            set_count(own_counts(me) + block, 0);
            return 0;
        }
    } while (!compare_and_swap(me->words + block, &seen,
                               (seen & -ONE_GENERATION) + ONE_GENERATION + (UINT64_C(1) << me->slot)));
    return 1;
}

static uint64_t take_cached(struct Member *me, uint64_t n, int64_t *blocks) {
    uint64_t got = 0;
    while (got < n && me->num_cached) {
        uint64_t block = me->cache[--me->num_cached], seen = load(me->words + block);
        set_count(own_counts(me) + block, 1);
        /* nobody else changes a word that we have cached, so this succeeds at once */
        while (!compare_and_swap(me->words + block, &seen,
                                 (seen & -ONE_GENERATION) + ONE_GENERATION + (UINT64_C(1) << me->slot)))
            ;
        blocks[got++] = block;
    }
    return got;
}

/* Go once round these hints. If only_empty, leave blocks with content alone, and put their hint where it belongs. */
static uint64_t take_hinted(struct Member *me, uint64_t *hints, uint64_t *cursor, int only_empty, uint64_t n,
                            int64_t *blocks) {
    uint64_t got = 0, num = num_hints(me), at = *cursor, passed = 0;
    while (got < n && passed <= num) {
        uint64_t seen = load(hints + at), taken = 0, left = seen;
        if (!seen) {
            at = at + 1 < num ? at + 1 : 0;
            passed++;
            continue;
        }
        for (uint64_t wanted = n - got; wanted && left; wanted--) {
            taken |= left & -left;
            left &= left - 1;
        }
        if (!compare_and_swap(hints + at, &seen, left))
            continue;
        for (; taken; taken &= taken - 1) {
            uint64_t block = at * 64 + __builtin_ctzll(taken), word = load(me->words + block);
            if (only_empty && !(word & HOLDERS) && word & CONTENT)
                set_hint(me->content_hints, block);
            else if (claim(me, block))
                blocks[got++] = block;
        }
    }
    *cursor = at;
    return got;
}

/* Whether n of the blocks in the content hints are free. The hints alone do not say so: a block that is reused leaves
   its hint there. This looks where take_hinted will look, so it is soon done. */
static int has_content_to_take(const struct Member *me, uint64_t n) {
    uint64_t num = num_hints(me), at = me->content_cursor;
    for (uint64_t passed = 0; passed < num; passed++, at = at + 1 < num ? at + 1 : 0)
        for (uint64_t seen = load(me->content_hints + at); seen; seen &= seen - 1)
            if (!(load(me->words + at * 64 + __builtin_ctzll(seen)) & HOLDERS) && --n == 0)
                return 1;
    return 0;
}

/* Blocks that this member could take now. */
uint64_t pagedkv_num_free(const struct Member *me) {
    uint64_t count = 0;
    for (uint64_t block = 0; block < me->num_blocks; block++)
        count += !(load(me->words + block) & HOLDERS);
    return count + me->num_cached;
}

static void release_one(struct Member *me, uint64_t block, int may_cache) {
    uint32_t *count = own_counts(me) + block;
    if (*count > 1) {
        set_count(count, *count - 1);
        return;
    }
    uint64_t seen = load(me->words + block), left;
    do {
        left = seen & ~(UINT64_C(1) << me->slot);
        if (may_cache && !(left & (HOLDERS | CONTENT)) && me->num_cached < me->cache_size)
            left = seen | CACHED;
    } while (!compare_and_swap(me->words + block, &seen, left));
    set_count(count, 0);
    if (left & CACHED)
        me->cache[me->num_cached++] = block;
    else if (!(left & HOLDERS))
        set_hint_of_free(me, block, left);
}

/* 1: n blocks are in `blocks`. 0: there are not enough, and none is taken. */
int pagedkv_allocate(struct Member *me, uint64_t n, int64_t *blocks) {
    uint64_t got = take_cached(me, n, blocks);
    got += take_hinted(me, me->empty_hints, &me->empty_cursor, 1, n - got, blocks + got);
    /* a call that will be refused must not cost anybody's content */
    if (got < n && (has_content_to_take(me, n - got) || pagedkv_num_free(me) >= n - got)) {
        got += take_hinted(me, me->content_hints, &me->content_cursor, 0, n - got, blocks + got);
        for (uint64_t block = 0; block < me->num_blocks && got < n; block++)
            if (claim(me, block))
                blocks[got++] = block;
    }
    if (got == n)
        return 1;
    while (got)
        release_one(me, blocks[--got], 0);
    return 0;
}

/* ── retain and release ───────────────────────────────────────────────────────────────────────────────────────────────
   They give 0, or i + 1 if blocks[i] is outside the pool, or -(i + 1) if it is refused; then nothing has changed. */

static int64_t first_outside(const struct Member *me, uint64_t n, const int64_t *blocks) {
    for (uint64_t i = 0; i < n; i++)
        if (blocks[i] < 0 || (uint64_t)blocks[i] >= me->num_blocks)
            return i + 1;
    return 0;
}

/* generation -1: any. 1: done, 0: refused. */
static int retain_one(struct Member *me, uint64_t block, int64_t generation) {
    uint32_t *count = own_counts(me) + block;
    uint64_t seen = load(me->words + block);
    int is_first = *count == 0;
    if (is_first)
        set_count(count, 1);
    else if (generation < 0 || seen / ONE_GENERATION == (uint64_t)generation) {
        set_count(count, *count + 1);
        return 1;
    } else
        return 0;
    do {
        if (!(seen & HOLDERS) || seen & CACHED || (generation >= 0 && seen / ONE_GENERATION != (uint64_t)generation)) {
            set_count(count, 0);
            return 0;
        }
    } while (!compare_and_swap(me->words + block, &seen, seen | UINT64_C(1) << me->slot));
    return 1;
}

int64_t pagedkv_retain(struct Member *me, uint64_t n, const int64_t *blocks, const int64_t *generations) {
    int64_t outside = first_outside(me, n, blocks);
    if (outside)
        return outside;
    for (uint64_t i = 0; i < n; i++)
        if (!retain_one(me, blocks[i], generations ? generations[i] : -1)) {
            for (uint64_t done = i; done--;)
                release_one(me, blocks[done], 0);
            return -(int64_t)(i + 1);
        }
    return 0;
}

int64_t pagedkv_release(struct Member *me, uint64_t n, const int64_t *blocks) {
    int64_t refused = first_outside(me, n, blocks);
    if (refused)
        return refused;
    uint64_t i = 0;
    for (; i < n; i++) /* how often does each block stand here? */
        if (++me->scratch[blocks[i]] > own_counts(me)[blocks[i]]) {
            refused = -(int64_t)(i + 1);
            break;
        }
    for (uint64_t seen = 0; seen < n && seen <= i; seen++)
        me->scratch[blocks[seen]] = 0;
    if (!refused)
        for (i = 0; i < n; i++)
            release_one(me, blocks[i], 1);
    return refused;
}

/* ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

uint64_t pagedkv_refcount(const struct Member *me, uint64_t block) {
    uint64_t word = load(me->words + block), sum = 0;
    if (word & CACHED)
        return 0;
    for (uint64_t holders = word & HOLDERS; holders; holders &= holders - 1)
        sum += __atomic_load_n(me->counts + __builtin_ctzll(holders) * me->row + block, __ATOMIC_ACQUIRE);
    return sum;
}

void pagedkv_refcounts(const struct Member *me, uint64_t *counts) {
    for (uint64_t block = 0; block < me->num_blocks; block++)
        counts[block] = pagedkv_refcount(me, block);
}

/* How many free blocks have content that can be found. */
uint64_t pagedkv_num_cached(const struct Member *me) {
    uint64_t count = 0;
    for (uint64_t block = 0; block < me->num_blocks; block++)
        count += (load(me->words + block) & (HOLDERS | CONTENT)) == CONTENT;
    return count;
}

/* ── the prefix index ────────────────────────────────────────────────────────────────────────────────────────────────
   Records are read while others may write them, so every number of them is read and written as an atomic one. */

#define WINDOW_BUCKETS 16
#define SALT_NUMBERS 4

struct Record {
    uint64_t node, parent, salt[SALT_NUMBERS];
    uint32_t tokens[];
};

struct Key {
    uint64_t parent, salt[SALT_NUMBERS];
    const uint32_t *tokens;
};

static inline uint64_t relaxed(const uint64_t *at) {
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static inline struct Record *record_of(const struct Member *me, uint64_t block) {
    return (struct Record *)(me->records + block * me->record_bytes);
}

static inline uint64_t mixed(uint64_t hash, uint32_t number) {
    hash = (hash ^ number) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 32;
}

static inline uint64_t mixed_u64(uint64_t hash, uint64_t number) {
    return mixed(mixed(hash, (uint32_t)number), (uint32_t)(number >> 32));
}

static uint64_t hash_of(const struct Member *me, const struct Key *key) {
    uint64_t hash = mixed_u64(0, key->parent);
    for (int i = 0; i < SALT_NUMBERS; i++)
        hash = mixed_u64(hash, key->salt[i]);
    for (uint64_t i = 0; i < me->tokens_per_block; i++)
        hash = mixed(hash, key->tokens[i]);
    return hash;
}

static uint64_t hash_of_record(const struct Member *me, const struct Record *record) {
    uint64_t hash = mixed_u64(0, relaxed(&record->parent));
    for (int i = 0; i < SALT_NUMBERS; i++)
        hash = mixed_u64(hash, relaxed(record->salt + i));
    for (uint64_t i = 0; i < me->tokens_per_block; i++)
        hash = mixed(hash, __atomic_load_n(record->tokens + i, __ATOMIC_RELAXED));
    return hash;
}

/* The record's node if it has this key; 0 if it has another one, or was changed while we looked: whoever writes it
   makes the node 0 before, and a new one after. */
static uint64_t node_with_key(const struct Member *me, uint64_t block, const struct Key *key) {
    const struct Record *record = record_of(me, block);
    uint64_t node = __atomic_load_n(&record->node, __ATOMIC_ACQUIRE);
    if (relaxed(&record->parent) != key->parent)
        return 0;
    for (int i = 0; i < SALT_NUMBERS; i++)
        if (relaxed(record->salt + i) != key->salt[i])
            return 0;
    for (uint64_t i = 0; i < me->tokens_per_block; i++)
        if (__atomic_load_n(record->tokens + i, __ATOMIC_RELAXED) != key->tokens[i])
            return 0;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return relaxed(&record->node) == node ? node : 0;
}

static inline void write(uint64_t *at, uint64_t number) {
    step();
    __atomic_store_n(at, number, __ATOMIC_RELAXED);
}

static void write_record(struct Member *me, uint64_t block, const struct Key *key, uint64_t node) {
    struct Record *record = record_of(me, block);
    write(&record->node, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    write(&record->parent, key->parent);
    for (int i = 0; i < SALT_NUMBERS; i++)
        write(record->salt + i, key->salt[i]);
    for (uint64_t i = 0; i < me->tokens_per_block; i++) {
        step();
        __atomic_store_n(record->tokens + i, key->tokens[i], __ATOMIC_RELAXED);
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    write(&record->node, node);
}

static struct Key key_of(const uint32_t *tokens, uint64_t parent, const void *salt) {
    struct Key key = {.parent = parent, .tokens = tokens};
    if (!parent)
        __builtin_memcpy(key.salt, salt, sizeof key.salt);
    return key;
}

/* The node with this key, and its block; 0: not known. */
static uint64_t find(const struct Member *me, const struct Key *key, uint64_t *block) {
    uint64_t hash = hash_of(me, key);
    for (uint64_t i = 0; i < WINDOW_BUCKETS; i++) {
        uint64_t entry = load(me->buckets + ((hash + i) & (me->num_buckets - 1))), node;
        if (!entry || entry >> 32 != hash >> 32)
            continue;
        *block = (uint32_t)entry - UINT64_C(1);
        if (*block < me->num_blocks && (load(me->words + *block) & (CONTENT | CACHED)) == CONTENT &&
                (node = node_with_key(me, *block, key)))
            return node;
    }
    return 0;
}

/* The same, with one more reference to the block. */
static uint64_t reuse(struct Member *me, const struct Key *key, uint64_t *block) {
    uint64_t node = find(me, key, block);
    if (!node)
        return 0;
    uint32_t *count = own_counts(me) + *block;
    if (*count)
        set_count(count, *count + 1);
    else {
        uint64_t seen = load(me->words + *block);
        set_count(count, 1);
        do {
            if ((seen & (CONTENT | CACHED)) != CONTENT) {
                set_count(count, 0);
                return 0;
            }
        } while (!compare_and_swap(me->words + *block, &seen, seen | UINT64_C(1) << me->slot));
    }
    node = node_with_key(me, *block, key); /* it cannot change any more */
    if (!node)
        release_one(me, *block, 0);
    return node;
}

/* The longest known chain with these tokens, at most n blocks; how many they are. hold: one reference to each. */
uint64_t pagedkv_match(struct Member *me, const uint32_t *tokens, uint64_t n, const void *salt, int hold,
                       int64_t *blocks, uint64_t *nodes) {
    uint64_t parent = 0, got = 0, block;
    for (; got < n; got++) {
        struct Key key = key_of(tokens + got * me->tokens_per_block, parent, salt);
        parent = hold ? reuse(me, &key, &block) : find(me, &key, &block);
        if (!parent)
            break;
        blocks[got] = block;
        nodes[got] = parent;
    }
    return got;
}

static int is_dead(const struct Member *me, uint64_t entry) {
    uint64_t block = (uint32_t)entry - UINT64_C(1);
    return block >= me->num_blocks || !(load(me->words + block) & CONTENT) ||
           hash_of_record(me, record_of(me, block)) >> 32 != entry >> 32;
}

static void insert(struct Member *me, uint64_t hash, uint64_t block) {
    uint64_t entry = (hash >> 32 << 32) | (block + 1);
    for (uint64_t i = 0; i < WINDOW_BUCKETS; i++) {
        uint64_t *bucket = me->buckets + ((hash + i) & (me->num_buckets - 1)), seen = load(bucket);
        if (seen == entry) /* from an earlier time with the same content */
            return;
        if ((!seen || is_dead(me, seen)) && compare_and_swap(bucket, &seen, entry))
            return;
    }
    uint64_t *first = me->buckets + (hash & (me->num_buckets - 1)), seen = load(first);
    while (!compare_and_swap(first, &seen, entry))
        ;
}

/* The node under which the chain goes on; 0: refused. The block is one that we hold. */
uint64_t pagedkv_publish(struct Member *me, uint64_t block, const uint32_t *tokens, uint64_t parent, const void *salt) {
    struct Key key = key_of(tokens, parent, salt);
    uint64_t found, node = find(me, &key, &found), seen = load(me->words + block), mine = UINT64_C(1) << me->slot;
    if (node)
        return node;
    if ((seen & (HOLDERS | CACHED | CONTENT)) != mine)
        return 0;
    step();
    node = __atomic_add_fetch(me->last_node, 1, __ATOMIC_SEQ_CST);
    write_record(me, block, &key, node);
    do {
        if ((seen & (HOLDERS | CACHED | CONTENT)) != mine)
            return 0;
    } while (!compare_and_swap(me->words + block, &seen, seen | CONTENT));
    insert(me, hash_of(me, &key), block);
    return node;
}

/* Whether the block, one that we hold, had content. */
int pagedkv_unpublish(struct Member *me, uint64_t block) {
    uint64_t seen = load(me->words + block);
    do {
        if (!(seen & CONTENT))
            return 0;
    } while (!compare_and_swap(me->words + block, &seen, seen & ~CONTENT));
    return 1;
}

/* ── after a death ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Take back what the members of these slots held (bit s: slot s). Their locks are the caller's. To references[s] and
   blocks[s] is added what slot s lost, and what became free with it (of several dead, with the lowest slot). */
void pagedkv_reap(struct Member *me, uint64_t dead, uint64_t *references, uint64_t *blocks) {
    for (uint64_t block = 0; block < me->num_blocks; block++) {
        uint64_t seen = load(me->words + block), left, holders = seen & dead;
        if (!holders)
            continue;
        if (!(seen & CACHED))
            for (uint64_t rest = holders; rest; rest &= rest - 1)
                references[__builtin_ctzll(rest)] += me->counts[__builtin_ctzll(rest) * me->row + block];
        do
            left = seen & ~(dead | CACHED); /* a cached block has no other holder */
        while (!compare_and_swap(me->words + block, &seen, left));
        if (!(left & HOLDERS)) {
            set_hint_of_free(me, block, left);
            blocks[__builtin_ctzll(holders)]++;
        }
    }
    for (uint64_t slots = dead; slots; slots &= slots - 1) {
        uint32_t *row = me->counts + __builtin_ctzll(slots) * me->row;
        for (uint64_t block = 0; block < me->num_blocks; block++)
            if (row[block])
                set_count(row + block, 0);
    }
}

/* How many free blocks had lost their hint. */
uint64_t pagedkv_heal(struct Member *me) {
    uint64_t healed = 0;
    for (uint64_t block = 0; block < me->num_blocks; block++) {
        uint64_t word = load(me->words + block);
        if (!(word & HOLDERS))
            healed += set_hint_of_free(me, block, word);
    }
    return healed;
}

void pagedkv_add_one(uint64_t *at) {
    step();
    __atomic_fetch_add(at, 1, __ATOMIC_SEQ_CST);
}
