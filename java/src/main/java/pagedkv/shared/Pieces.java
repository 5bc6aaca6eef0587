package pagedkv.shared;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Many parts of equal size that lie one after the other, and may be more than one ByteBuffer can hold: mapped in pieces
 * of as many whole parts as fit, a power of two of them, so that finding one takes a shift and a mask.
 */
final class Pieces {

    /** Maps bytes of a file. */
    interface Mapper {
        ByteBuffer map(long at, long bytes) throws IOException;
    }

    private final ByteBuffer[] pieces;
    private final int shift;
    private final int partBytes;

    /** @param pieceBytes how much is mapped at once, at most; a single part may have more */
    Pieces(Mapper mapper, long at, int numParts, int partBytes, int pieceBytes) throws IOException {
        this.partBytes = partBytes;
        int pieceParts = Integer.highestOneBit(Math.max(1, pieceBytes / partBytes));
        shift = Integer.numberOfTrailingZeros(pieceParts);
        pieces = new ByteBuffer[(int) (((long) numParts + pieceParts - 1) / pieceParts)];
        for (int i = 0; i < pieces.length; i++) {
            int parts = Math.min(pieceParts, numParts - i * pieceParts);
            pieces[i] = mapper.map(at + (long) i * pieceParts * partBytes, (long) parts * partBytes);
        }
    }

    int numPieces() {
        return pieces.length;
    }

    /** The piece that this part is in. */
    ByteBuffer piece(int part) {
        return pieces[part >> shift];
    }

    /** Where the part begins in its piece. */
    int at(int part) {
        return (part & (1 << shift) - 1) * partBytes;
    }

    /** A buffer of its own for some bytes of a part; little-endian. */
    ByteBuffer slice(int part, int from, int bytes) {
        return piece(part).slice(at(part) + from, bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
