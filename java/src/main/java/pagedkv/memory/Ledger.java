package pagedkv.memory;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The books of one allocator: which segments and pieces there are, and what the call in progress has done so far.
 *
 * <p>An allocator enters here whatever it does. The ledger trusts it no further than it must: a piece that overlaps
 * another one, or lies outside every segment, is an {@link IllegalStateException}, for then the allocator is wrong.
 *
 * <p>Changes, looks and notes are kept only while somebody observes. An allocator that would have to build a text for a
 * look or a note asks {@link #isWatched()} first.
 */
public final class Ledger {

    private final TreeMap<Long, Segment> segments = new TreeMap<>();
    private final TreeMap<Long, Piece> pieces = new TreeMap<>();

    private boolean watched;
    private List<Change> changes = List.of();
    private List<Look> looks = List.of();
    private List<String> notes = List.of();
    private int numLooks;
    private long roundedBytes;
    private long movedBytes;
    private int deviceMallocs;
    private int deviceFrees;

    Ledger() {
    }

    /** Whether anybody will read the looks and notes of this call. */
    public boolean isWatched() {
        return watched;
    }

    /** A new segment. */
    public void reserve(long address, long sizeBytes, String label) {
        var segment = new Segment(address, sizeBytes, label);
        var before = segments.floorEntry(segment.end() - 1);
        if (sizeBytes < 1 || before != null && before.getValue().end() > address) {
            throw new IllegalStateException("a wrong allocator: its new " + segment + " is empty or overlaps another");
        }
        segments.put(address, segment);
        deviceMallocs++;
        enter(Change.RESERVE, address, sizeBytes, 0, label);
    }

    /** The segment at this address goes back to the device. */
    public void unreserve(long address) {
        var segment = segments.get(address);
        if (segment == null || !pieces.subMap(address, segment.end()).isEmpty()) {
            throw new IllegalStateException("a wrong allocator: it gave back a segment at " + address
                    + (segment == null ? ", and there is none" : " that has pieces in it"));
        }
        segments.remove(address);
        deviceFrees++;
        enter(Change.UNRESERVE, address, segment.sizeBytes(), 0, segment.label());
    }

    /** A piece is in use from now on. */
    public void take(long address, long sizeBytes, String owner, long requestedBytes) {
        var piece = new Piece(address, sizeBytes, owner, requestedBytes, false);
        var segment = segments.floorEntry(address);
        var before = pieces.floorEntry(piece.end() - 1);
        if (segment == null || piece.end() > segment.getValue().end() || requestedBytes > sizeBytes || sizeBytes < 1
                || before != null && before.getValue().end() > address) {
            throw new IllegalStateException("a wrong allocator: its new " + piece
                    + " is too small, overlaps another or lies outside the segments");
        }
        pieces.put(address, piece);
        enter(Change.TAKE, address, sizeBytes, requestedBytes, "");
    }

    /** The owner of the piece at this address asked for {@code requestedBytes} of it in total. */
    public void fill(long address, long requestedBytes) {
        var piece = pieceAt(address);
        if (piece.held() || requestedBytes > piece.sizeBytes()) {
            throw new IllegalStateException("a wrong allocator: it filled " + piece + " with " + requestedBytes);
        }
        pieces.put(address, new Piece(address, piece.sizeBytes(), piece.owner(), requestedBytes, false));
        enter(Change.FILL, address, piece.sizeBytes(), requestedBytes, "");
    }

    /** The piece at this address is free. */
    public void give(long address) {
        var piece = pieceAt(address);
        pieces.remove(address);
        enter(Change.GIVE, address, piece.sizeBytes(), piece.requestedBytes(), "");
    }

    /** The owner of the piece at this address has let go of it, and it is not free yet. */
    public void hold(long address) {
        var piece = pieceAt(address);
        if (piece.held()) {
            throw new IllegalStateException("a wrong allocator: it holds " + piece + " twice");
        }
        pieces.put(address, new Piece(address, piece.sizeBytes(), piece.owner(), piece.requestedBytes(), true));
        enter(Change.HOLD, address, piece.sizeBytes(), piece.requestedBytes(), "");
    }

    /** What the allocator's rules make of the size that was asked for. */
    public void rounded(long sizeBytes) {
        roundedBytes = sizeBytes;
    }

    /** A candidate that was looked at, and the rule that rejected it or led on from it. */
    public void look(String what, long address, long sizeBytes, String verdict) {
        if (watched) {
            numLooks++;
            boolean full = looks.size() == Decision.MOST_LOOKS;
            if (full && verdict.equals(Look.CHOSEN)) {
                looks.remove(Decision.MOST_LOOKS - 1);
                full = false;
            }
            if (!full) {
                looks.add(new Look(what, address, sizeBytes, verdict));
            }
        }
    }

    /** The candidate that was taken. */
    public void chosen(String what, long address, long sizeBytes) {
        look(what, address, sizeBytes, Look.CHOSEN);
    }

    /** What else was decided, in a short sentence. */
    public void note(String sentence) {
        if (watched) {
            notes.add(sentence);
        }
    }

    /** A grow had to copy this much to another place. */
    public void moved(long bytes) {
        movedBytes += bytes;
    }

    Layout layout() {
        return new Layout(List.copyOf(segments.values()), List.copyOf(pieces.values()));
    }

    /** A call begins. */
    void begin(boolean isWatched) {
        watched = isWatched;
        if (watched) {
            changes = new ArrayList<>();
            looks = new ArrayList<>();
            notes = new ArrayList<>();
        }
        numLooks = 0;
        roundedBytes = movedBytes = 0;
        deviceMallocs = deviceFrees = 0;
    }

    List<Change> changes() {
        return changes;
    }

    /** Puts how the call was decided, and what it cost, under the names that events use. */
    void describe(Map<String, Object> detail, long askedBytes) {
        if (roundedBytes > 0 || !notes.isEmpty()) { // else nothing had to be decided
            long rounded = roundedBytes > 0 ? roundedBytes : askedBytes;
            detail.put("decision", new Decision(askedBytes, rounded, looks, numLooks, notes));
        }
        var deviceCalls = new TreeMap<String, Integer>();
        if (deviceMallocs > 0) {
            deviceCalls.put("malloc", deviceMallocs);
        }
        if (deviceFrees > 0) {
            deviceCalls.put("free", deviceFrees);
        }
        if (!deviceCalls.isEmpty()) {
            detail.put("device_calls", deviceCalls);
        }
        if (movedBytes > 0) {
            detail.put("moved_bytes", movedBytes);
        }
    }

    private Piece pieceAt(long address) {
        var piece = pieces.get(address);
        if (piece == null) {
            throw new IllegalStateException("a wrong allocator: there is no piece at " + address);
        }
        return piece;
    }

    private void enter(String kind, long address, long sizeBytes, long requestedBytes, String label) {
        if (watched) {
            changes.add(new Change(kind, address, sizeBytes, requestedBytes, label));
        }
    }
}
