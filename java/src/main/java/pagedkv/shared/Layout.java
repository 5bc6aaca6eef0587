package pagedkv.shared;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Where everything is in a pool of these sizes. The specification, with every number explained, is the first page of
 * {@code pagedkv/shared/layout.py}; both languages keep to it.
 *
 * <pre>
 *   header | slots | empty hints | content hints | words | counts | index | data
 * </pre>
 *
 * <p>All offsets and sizes are in bytes; no region reaches into another.
 */
final class Layout {

    static final long MAGIC = 0x00564B4445474150L; // "PAGEDKV" and a zero
    static final int VERSION = 2;
    static final int NUM_SLOTS = 48;
    static final int HEADER_BYTES = 4096;
    static final int PAGE_BYTES = 4096;
    static final int LINE_BYTES = 64;
    static final int SLOT_BYTES = 64;

    static final int ID_AT = 120;
    static final int STATE_AT = 128;
    static final int REAPS_AT = 192;
    static final int LAST_NODE_AT = 256;
    static final long READY = 1;

    static final int GENERATION_SHIFT = 50;
    static final long ONE_GENERATION = 1L << GENERATION_SHIFT;
    static final long CONTENT = 1L << 49;
    static final long CACHED = 1L << 48;
    static final long HOLDERS = (1L << 48) - 1;

    /** A ByteBuffer ends at 2 GiB, and the words of all blocks are one. */
    static final int MOST_BLOCKS = (1 << 28) - 1;
    /** A block has to be one ByteBuffer, with its guards. */
    static final int MOST_BLOCK_BYTES = Integer.MAX_VALUE - 4 * LINE_BYTES;

    static final int GUARD_BYTES = 64;

    static final int RECORD_HEAD_BYTES = 48;
    static final int MOST_TOKENS_PER_BLOCK = 1 << 16;
    /** The buckets of the index, too, have to be one ByteBuffer. */
    static final int MOST_INDEXED_BLOCKS = 1 << 25;

    private static final long GUARD_FLAG = 1;
    private static final String[] REGIONS =
            {"slots", "empty hints", "content hints", "words", "counts", "index", "data"};
    private static final int OFFSETS_AT = 64;

    final int numBlocks;
    final int blockBytes;
    final boolean guard;
    /** 0: the pool has no prefix index. */
    final long tokensPerBlock;
    final long poolId;
    private final long[] offsets = new long[REGIONS.length];

    /** @throws IllegalArgumentException for sizes that a pool cannot have, or that Java could not map */
    Layout(int numBlocks, int blockBytes, boolean guard, long tokensPerBlock, long poolId) {
        if (numBlocks < 1 || numBlocks > MOST_BLOCKS || blockBytes < 1 || blockBytes > MOST_BLOCK_BYTES) {
            throw new IllegalArgumentException(("a shared pool has 1 to %d blocks of 1 to %d bytes (a ByteBuffer ends "
                    + "at 2 GiB), got %d of %d bytes")
                    .formatted(MOST_BLOCKS, MOST_BLOCK_BYTES, numBlocks, blockBytes));
        }
        if (tokensPerBlock < 0 || tokensPerBlock > MOST_TOKENS_PER_BLOCK) {
            throw new IllegalArgumentException("tokensPerBlock is 0 (no prefix index) to %d, got %d"
                    .formatted(MOST_TOKENS_PER_BLOCK, tokensPerBlock));
        }
        if (tokensPerBlock > 0 && numBlocks > MOST_INDEXED_BLOCKS) {
            throw new IllegalArgumentException(("a shared pool with a prefix index has at most %d blocks in Java, "
                    + "got %d: leave tokensPerBlock out, or take larger blocks")
                    .formatted(MOST_INDEXED_BLOCKS, numBlocks));
        }
        this.numBlocks = numBlocks;
        this.blockBytes = blockBytes;
        this.guard = guard;
        this.tokensPerBlock = tokensPerBlock;
        this.poolId = poolId;
        long hints = roundUp(8L * numHints(), LINE_BYTES);
        long[] sizes = {(long) NUM_SLOTS * SLOT_BYTES, hints, hints, roundUp(8L * numBlocks, LINE_BYTES),
            NUM_SLOTS * rowBytes(), 8 * indexEntries() + numBlocks * recordBytes()};
        offsets[0] = HEADER_BYTES;
        for (int i = 0; i < sizes.length; i++) {
            offsets[i + 1] = offsets[i] + sizes[i];
        }
        offsets[6] = roundUp(offsets[6], PAGE_BYTES);
    }

    static long roundUp(long number, long to) {
        return (number + to - 1) / to * to;
    }

    /** u64 numbers in each bitmap of hints. */
    int numHints() {
        return (numBlocks + 63) / 64;
    }

    /** From one slot's counts to the next slot's. */
    long rowBytes() {
        return roundUp(4L * numBlocks, LINE_BYTES);
    }

    /** Buckets of the prefix index. */
    long indexEntries() {
        if (tokensPerBlock == 0) {
            return 0;
        }
        long wanted = 4L * numBlocks;
        return Math.max(64, Long.highestOneBit(2 * wanted - 1));
    }

    /** From one block's record in the index to the next one's. */
    long recordBytes() {
        return tokensPerBlock == 0 ? 0 : roundUp(RECORD_HEAD_BYTES + 4 * tokensPerBlock, LINE_BYTES);
    }

    /** From one block to the next. */
    int strideBytes() {
        return (int) roundUp(blockBytes, LINE_BYTES) + (guard ? 2 * GUARD_BYTES : 0);
    }

    long slotsAt() {
        return offsets[0];
    }

    long emptyHintsAt() {
        return offsets[1];
    }

    long contentHintsAt() {
        return offsets[2];
    }

    long wordsAt() {
        return offsets[3];
    }

    /** The row of counts of one slot. */
    long rowAt(int slot) {
        return offsets[4] + slot * rowBytes();
    }

    long bucketsAt() {
        return offsets[5];
    }

    long recordsAt() {
        return offsets[5] + 8 * indexEntries();
    }

    long dataAt() {
        return offsets[6];
    }

    long capacityBytes() {
        return roundUp(dataAt() + (long) numBlocks * strideBytes(), PAGE_BYTES);
    }

    /** Writes the header's first 128 bytes; {@code header} is little-endian. */
    void writeHeader(ByteBuffer header) {
        header.putLong(0, MAGIC).putInt(8, VERSION).putInt(12, NUM_SLOTS).putLong(16, capacityBytes())
                .putLong(24, blockBytes).putLong(32, numBlocks).putLong(40, strideBytes())
                .putInt(48, (int) tokensPerBlock).putInt(52, (int) indexEntries())
                .putLong(56, guard ? GUARD_FLAG : 0);
        for (int i = 0; i < offsets.length; i++) {
            header.putLong(OFFSETS_AT + 8 * i, offsets[i]);
        }
        header.putLong(ID_AT, poolId);
    }

    /**
     * The layout of a pool that has a file of this size and begins with these bytes.
     *
     * @throws NotReadyException for one that is still being made
     * @throws IncompatiblePoolException for no pool, one of another version or size, or one that Java cannot map; it
     *     says what was found and what was expected
     */
    static Layout readHeader(byte[] bytes, long fileBytes) {
        if (fileBytes == 0) {
            throw new NotReadyException("it has no bytes yet");
        }
        if (fileBytes < HEADER_BYTES || bytes.length < HEADER_BYTES) {
            throw new IncompatiblePoolException("the file is truncated: it has %d bytes, a header alone takes %d"
                    .formatted(fileBytes, HEADER_BYTES));
        }
        var header = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        long magic = header.getLong(0);
        boolean ready = header.getLong(STATE_AT) == READY;
        if (magic == 0 && header.getLong(STATE_AT) == 0) {
            throw new NotReadyException("it is empty");
        }
        if (magic != MAGIC) {
            throw new IncompatiblePoolException(("its magic number: found 0x%x, expected 0x%x (no shared pool, or of a "
                    + "machine with another byte order)").formatted(magic, MAGIC));
        }
        expect("its version", Integer.toUnsignedLong(header.getInt(8)), VERSION,
                ": remove it, and create it again with this version of pagedkv");
        if (!ready) {
            throw new NotReadyException("its state is not set");
        }
        expect("its number of slots", Integer.toUnsignedLong(header.getInt(12)), NUM_SLOTS, "");
        long capacity = header.getLong(16);
        if (capacity != fileBytes) {
            throw new IncompatiblePoolException("the file is %s: it has %d bytes, its header says %s".formatted(
                    Long.compareUnsigned(fileBytes, capacity) < 0 ? "truncated" : "longer than it was made", fileBytes,
                    Long.toUnsignedString(capacity)));
        }
        return layoutOf(header);
    }

    private static Layout layoutOf(ByteBuffer header) {
        long blockBytes = header.getLong(24);
        long numBlocks = header.getLong(32);
        long poolId = header.getLong(ID_AT);
        if (numBlocks == 0 || blockBytes == 0 || poolId == 0) {
            throw new IncompatiblePoolException("its header is damaged: %s blocks of %s bytes, id %s".formatted(
                    Long.toUnsignedString(numBlocks), Long.toUnsignedString(blockBytes),
                    Long.toUnsignedString(poolId)));
        }
        if (Long.compareUnsigned(numBlocks, MOST_BLOCKS) > 0
                || Long.compareUnsigned(blockBytes, MOST_BLOCK_BYTES) > 0) {
            throw new IncompatiblePoolException(("it has %s blocks of %s bytes, more than Java can map: at most %d of "
                    + "%d bytes, since a ByteBuffer ends at 2 GiB").formatted(Long.toUnsignedString(numBlocks),
                    Long.toUnsignedString(blockBytes), MOST_BLOCKS, MOST_BLOCK_BYTES));
        }
        long tokens = Integer.toUnsignedLong(header.getInt(48));
        if (tokens > MOST_TOKENS_PER_BLOCK || tokens > 0 && numBlocks > MOST_INDEXED_BLOCKS) {
            throw new IncompatiblePoolException(("its index is of %d blocks of %d tokens, more than Java can map: at "
                    + "most %d of %d tokens").formatted(numBlocks, tokens, MOST_INDEXED_BLOCKS,
                    MOST_TOKENS_PER_BLOCK));
        }
        long flags = header.getLong(56);
        expect("its flags", flags & ~GUARD_FLAG, 0, "");
        var layout = new Layout((int) numBlocks, (int) blockBytes, (flags & GUARD_FLAG) != 0,
                tokens, poolId);
        expect("its index entries", Integer.toUnsignedLong(header.getInt(52)), layout.indexEntries(), "");
        expect("the bytes from one block to the next", header.getLong(40), layout.strideBytes(), "");
        for (int i = 0; i < REGIONS.length; i++) {
            expect("the offset of its " + REGIONS[i], header.getLong(OFFSETS_AT + 8 * i), layout.offsets[i], "");
        }
        expect("its size in bytes", header.getLong(16), layout.capacityBytes(), "");
        return layout;
    }

    private static void expect(String what, long found, long expected, String hint) {
        if (found != expected) {
            throw new IncompatiblePoolException("%s: found %s, expected %s%s".formatted(
                    what, Long.toUnsignedString(found), Long.toUnsignedString(expected), hint));
        }
    }
}
