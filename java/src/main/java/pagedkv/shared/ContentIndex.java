package pagedkv.shared;

import static pagedkv.shared.Layout.CACHED;
import static pagedkv.shared.Layout.CONTENT;
import static pagedkv.shared.Layout.HOLDERS;
import static pagedkv.shared.Layout.LAST_NODE_AT;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The prefix index of one member: blocks found by what they, and the blocks before them, contain.
 *
 * <p>A <em>key</em> is the node of the block before, the digest of the salt (at the beginning only), and one block's
 * tokens; the <em>record</em> of a block has its key and its own <em>node</em>, a number that is never given twice. A
 * <em>bucket</em> says where to look, by the hash of a key: it may be wrong, and only the record is compared.
 *
 * <p>The steps are specified in {@code pagedkv/shared/layout.py}; why what is found is what was asked for, and why a
 * kill between two steps does no harm, is argued in {@code portable_operations.py}. In short: a record is written by
 * the only holder of a block without CONTENT, its node 0 before and new after; so a node that is the same before and
 * after a comparison is the node of just this content. A reuse compares once more with its reference in place: then
 * nobody can be the only holder, and nothing can change.
 *
 * <p>One call at a time: the caller sees to that.
 */
final class ContentIndex {

    /** The node of what comes first; also: no such content. */
    static final long NONE = 0;
    static final int DIGEST_LONGS = 4;

    private static final int WINDOW_BUCKETS = 16;
    private static final long MULTIPLIER = 0x9E3779B97F4A7C15L;
    private static final int PARENT = 8;
    private static final int SALT = 16;
    private static final long LOW = 0xFFFF_FFFFL;
    private static final long[] NO_SALT = new long[DIGEST_LONGS];

    private final Mapping mapping;
    private final Atomics atomics;
    private final Operations operations;
    private final ByteBuffer buckets;
    private final Pieces records;
    private final int numBlocks;
    private final long numBuckets;
    private final int tokensPerBlock;
    private final long me;

    /** The block of the key that was looked for last, if it was found. */
    private int foundBlock;

    ContentIndex(Mapping mapping, Atomics atomics, Operations operations, int slot) {
        this.mapping = mapping;
        this.atomics = atomics;
        this.operations = operations;
        buckets = mapping.buckets;
        records = mapping.records;
        numBlocks = mapping.layout.numBlocks;
        numBuckets = mapping.layout.indexEntries();
        tokensPerBlock = (int) mapping.layout.tokensPerBlock;
        me = 1L << slot;
    }

    /** One block's tokens, {@code tokens[from]} the first, under a node. */
    private record Key(long parent, long[] salt, int[] tokens, int from) {
    }

    private Key key(long parent, long[] salt, int[] tokens, int block) {
        return new Key(parent, parent == NONE ? salt : NO_SALT, tokens, block * tokensPerBlock);
    }

    /**
     * The blocks of the longest known chain, at most {@code most}.
     *
     * @param hold one more reference of this member to each
     */
    int[] match(int[] tokens, int most, long[] salt, boolean hold) {
        var blocks = new int[most];
        long parent = NONE;
        int found = 0;
        while (found < most) {
            var key = key(parent, salt, tokens, found);
            parent = hold ? reuse(key) : find(key);
            if (parent == NONE) {
                break;
            }
            blocks[found++] = foundBlock;
        }
        return Arrays.copyOf(blocks, found);
    }

    /**
     * Makes findable what a block that this member holds contains: the {@code number}-th block of these tokens.
     *
     * @return the node under which the chain goes on: a new one, or that of the block that has this content already;
     *     {@link #NONE} if it is refused, as the block has other holders or other content. Then nothing has changed
     */
    long publish(int block, int[] tokens, int number, long parent, long[] salt) {
        var key = key(parent, salt, tokens, number);
        long known = find(key);
        if (known != NONE) {
            return known;
        }
        long seen = operations.word(block);
        if (!isOursAlone(seen)) {
            return NONE;
        }
        long node = atomics.add(mapping.header, LAST_NODE_AT, 1) + 1;
        writeRecord(block, key, node);
        while (isOursAlone(seen)) {
            long found = atomics.swap(mapping.words, 8 * block, seen, seen | CONTENT);
            if (found == seen) {
                insert(hash(key), block);
                return node;
            }
            seen = found;
        }
        return NONE;
    }

    /** One holder, this member, and no content. */
    private boolean isOursAlone(long word) {
        return (word & (HOLDERS | CACHED | CONTENT)) == me;
    }

    /** Whether the block had content that could be found. This member holds it. */
    boolean unpublish(int block) {
        long seen = operations.word(block);
        while ((seen & CONTENT) != 0) {
            long found = atomics.swap(mapping.words, 8 * block, seen, seen & ~CONTENT);
            if (found == seen) {
                return true;
            }
            seen = found;
        }
        return false;
    }

    /** Blocks that nobody holds, with content that can be found. */
    int numCached() {
        int cached = 0;
        for (int block = 0; block < numBlocks; block++) {
            if ((operations.word(block) & (HOLDERS | CONTENT)) == CONTENT) {
                cached++;
            }
        }
        return cached;
    }

    /** The key's node, and {@link #foundBlock}; or NONE. */
    private long find(Key key) {
        long hash = hash(key);
        for (int i = 0; i < WINDOW_BUCKETS; i++) {
            long entry = atomics.get(buckets, bucket(hash + i));
            long block = (entry & LOW) - 1;
            if (entry >>> 32 == hash >>> 32 && block >= 0 && block < numBlocks && hasContent((int) block)) {
                long node = nodeWithKey((int) block, key);
                if (node != NONE) {
                    foundBlock = (int) block;
                    return node;
                }
            }
        }
        return NONE;
    }

    private long reuse(Key key) {
        if (find(key) == NONE) {
            return NONE;
        }
        int block = foundBlock;
        if (!operations.holdContent(block)) {
            return NONE;
        }
        long node = nodeWithKey(block, key); // it cannot change any more
        if (node == NONE) {
            operations.giveBack(block);
        }
        return node;
    }

    private boolean hasContent(int block) {
        return (operations.word(block) & (CONTENT | CACHED)) == CONTENT;
    }

    private void insert(long hash, int block) {
        long entry = hash & ~LOW | block + 1;
        for (int i = 0; i < WINDOW_BUCKETS; i++) {
            int at = bucket(hash + i);
            long seen = atomics.get(buckets, at);
            if (seen == entry) { // from an earlier time with the same content
                return;
            }
            if ((seen == 0 || isDead(seen)) && atomics.swap(buckets, at, seen, entry) == seen) {
                return;
            }
        }
        int at = bucket(hash);
        long seen = atomics.get(buckets, at);
        for (long found = atomics.swap(buckets, at, seen, entry); found != seen;
                found = atomics.swap(buckets, at, seen, entry)) {
            seen = found;
        }
    }

    private boolean isDead(long entry) {
        long block = (entry & LOW) - 1;
        return block < 0 || block >= numBlocks || (operations.word((int) block) & CONTENT) == 0
                || hashOfRecord((int) block) >>> 32 != entry >>> 32;
    }

    private int bucket(long number) {
        return (int) (8 * (number & numBuckets - 1)); // a power of two of them
    }

    // records

    /** The record's node if it has this key; NONE if it has another one, or was changed while we looked. */
    private long nodeWithKey(int block, Key key) {
        var record = records.piece(block);
        int at = records.at(block);
        long node = atomics.get(record, at);
        atomics.fence();
        if (!hasKey(record, at, key)) {
            return NONE;
        }
        atomics.fence();
        return atomics.get(record, at) == node ? node : NONE;
    }

    private boolean hasKey(ByteBuffer record, int at, Key key) {
        if (record.getLong(at + PARENT) != key.parent) {
            return false;
        }
        for (int i = 0; i < DIGEST_LONGS; i++) {
            if (record.getLong(at + SALT + 8 * i) != key.salt[i]) {
                return false;
            }
        }
        for (int i = 0; i < tokensPerBlock; i++) {
            if (record.getInt(at + Layout.RECORD_HEAD_BYTES + 4 * i) != key.tokens[key.from + i]) {
                return false;
            }
        }
        return true;
    }

    private void writeRecord(int block, Key key, long node) {
        var record = records.piece(block);
        int at = records.at(block);
        atomics.put(record, at, NONE);
        atomics.fence();
        atomics.put(record, at + PARENT, key.parent);
        for (int i = 0; i < DIGEST_LONGS; i++) {
            atomics.put(record, at + SALT + 8 * i, key.salt[i]);
        }
        for (int i = 0; i < tokensPerBlock; i++) {
            atomics.putCount(record, at + Layout.RECORD_HEAD_BYTES + 4 * i, key.tokens[key.from + i]);
        }
        atomics.fence();
        atomics.put(record, at, node);
    }

    // hashes

    private long hash(Key key) {
        long hash = mixLong(0, key.parent);
        for (long part : key.salt) {
            hash = mixLong(hash, part);
        }
        for (int i = 0; i < tokensPerBlock; i++) {
            hash = mix(hash, key.tokens[key.from + i]);
        }
        return hash;
    }

    private long hashOfRecord(int block) {
        var record = records.piece(block);
        int at = records.at(block);
        long hash = 0;
        for (int i = PARENT; i < Layout.RECORD_HEAD_BYTES + 4 * tokensPerBlock; i += 4) {
            hash = mix(hash, record.getInt(at + i));
        }
        return hash;
    }

    private static long mixLong(long hash, long number) {
        return mix(mix(hash, (int) number), (int) (number >>> 32));
    }

    private static long mix(long hash, int number) {
        long mixed = (hash ^ number & LOW) * MULTIPLIER;
        return mixed ^ mixed >>> 32;
    }
}
