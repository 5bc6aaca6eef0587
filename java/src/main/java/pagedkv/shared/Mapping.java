package pagedkv.shared;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;

/**
 * The mapped file of a pool: each region as a buffer, and the data in pieces.
 *
 * <p>A ByteBuffer ends at 2 GiB, a pool need not. So what is in front of the data is one buffer if it is small enough,
 * else each region (of the counts, each row) is mapped on its own; the records of the index and the data are mapped in
 * {@link Pieces}.
 *
 * <p>All pages are touched at once, so that no later access waits for a page fault. Nothing is unmapped by hand: a
 * buffer keeps its memory mapped, and the garbage collector unmaps what nobody can reach any more. So a buffer that is
 * used too long shows wrong data, but never ends the JVM.
 */
final class Mapping {

    /** Half of what a ByteBuffer may have. */
    static final int PIECE_BYTES = 1 << 30;

    final Layout layout;
    final ByteBuffer header;
    final ByteBuffer slots;
    final ByteBuffer emptyHints;
    final ByteBuffer contentHints;
    final ByteBuffer words;
    /** By slot: its row of counts. */
    final ByteBuffer[] counts = new ByteBuffer[Layout.NUM_SLOTS];
    /** Null without a prefix index; and so is {@code records}. */
    final ByteBuffer buckets;
    final Pieces records;

    private final FileChannel channel;
    private final ByteBuffer front;
    private final Pieces data;
    private final int strideBytes;

    /** @param pieceBytes how much is mapped at once, at most; a single block may have more */
    Mapping(FileChannel channel, Layout layout, int pieceBytes) throws IOException {
        this.channel = channel;
        this.layout = layout;
        strideBytes = layout.strideBytes();
        front = layout.dataAt() <= pieceBytes ? map(0, layout.dataAt()) : null;
        header = region(0, Layout.HEADER_BYTES);
        slots = region(layout.slotsAt(), (long) Layout.NUM_SLOTS * Layout.SLOT_BYTES);
        emptyHints = region(layout.emptyHintsAt(), 8L * layout.numHints());
        contentHints = region(layout.contentHintsAt(), 8L * layout.numHints());
        words = region(layout.wordsAt(), 8L * layout.numBlocks);
        for (int slot = 0; slot < counts.length; slot++) {
            counts[slot] = region(layout.rowAt(slot), 4L * layout.numBlocks);
        }
        boolean indexed = layout.tokensPerBlock > 0;
        buckets = indexed ? region(layout.bucketsAt(), 8 * layout.indexEntries()) : null;
        records = indexed ? new Pieces(this::map, layout.recordsAt(), layout.numBlocks, (int) layout.recordBytes(),
                pieceBytes) : null;
        data = new Pieces(this::map, layout.dataAt(), layout.numBlocks, strideBytes, pieceBytes);
    }

    /** All bytes from a block's first guard to the next block's. */
    ByteBuffer stride(int block) {
        return data.slice(block, 0, strideBytes);
    }

    /** The bytes of a block. */
    ByteBuffer block(int block) {
        return data.slice(block, layout.guard ? Layout.GUARD_BYTES : 0, layout.blockBytes);
    }

    int numPieces() {
        return data.numPieces();
    }

    private ByteBuffer region(long at, long bytes) throws IOException {
        return front == null ? map(at, bytes)
                : front.slice((int) at, (int) bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private ByteBuffer map(long at, long bytes) throws IOException {
        MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_WRITE, at, bytes);
        mapped.load();
        return mapped.order(ByteOrder.LITTLE_ENDIAN);
    }
}
