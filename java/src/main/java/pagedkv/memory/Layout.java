package pagedkv.memory;

import java.util.List;

/** All segments and pieces of an allocator, in order of their addresses. */
public record Layout(List<Segment> segments, List<Piece> pieces) {

    public Layout {
        segments = List.copyOf(segments);
        pieces = List.copyOf(pieces);
    }

    public long reservedBytes() {
        return segments.stream().mapToLong(Segment::sizeBytes).sum();
    }

    /** What owners have, the rounding included; held pieces have no owner any more. */
    public long usedBytes() {
        return pieces.stream().filter(piece -> !piece.held()).mapToLong(Piece::sizeBytes).sum();
    }

    /** What waits in caches: let go by its owner, and not free yet. */
    public long heldBytes() {
        return pieces.stream().filter(Piece::held).mapToLong(Piece::sizeBytes).sum();
    }
}
