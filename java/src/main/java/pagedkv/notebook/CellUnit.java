package pagedkv.notebook;

import java.net.URI;
import java.util.NavigableMap;
import javax.tools.SimpleJavaFileObject;

/**
 * A source file made from pieces of one cell. Its lines are the notebook's lines; its columns need not be the cell's, so
 * it knows for each of its positions the offset in the cell.
 *
 * <p>javac writes the last part of the URI into the class files, so every stack trace says {@code cell:<line>}.
 */
final class CellUnit extends SimpleJavaFileObject {
    /** From {@code position} on the text stands in the cell at {@code offset}, or was put in there ({@code copied} false). */
    record Segment(int position, int offset, boolean copied) {
    }

    private final SplitCell cell;
    private final String text;
    private final NavigableMap<Integer, Segment> segments;

    CellUnit(String path, SplitCell cell, String text, NavigableMap<Integer, Segment> segments) {
        super(URI.create("cell:///" + path + "/cell"), Kind.SOURCE);
        this.cell = cell;
        this.text = text;
        this.segments = segments;
    }

    SplitCell cell() {
        return cell;
    }

    /** The offset in the cell for a position in this file. */
    int cellOffset(long position) {
        int at = (int) Math.max(0, position);
        Segment segment = segments.floorEntry(at).getValue();
        int offset = segment.copied() ? segment.offset() + at - segment.position() : segment.offset();
        return Math.min(offset, cell.source().lastOffset());
    }

    @Override
    public CharSequence getCharContent(boolean ignoreEncodingErrors) {
        return text;
    }

    /**
     * A cell may hold several public types, so none of them is told to live in a file of its own name. javac asks with
     * {@code package-info} too, which a cell is not.
     */
    @Override
    public boolean isNameCompatible(String simpleName, Kind kind) {
        return kind == Kind.SOURCE && !simpleName.equals("package-info");
    }
}
