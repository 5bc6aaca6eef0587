package pagedkv.notebook;

import java.util.List;

/**
 * One stretch {@code [start, end)} of a cell that is of one kind. Neighbouring statements form one piece.
 *
 * @param name  IMPORT: what is imported, like {@code java.util.List} or {@code java.awt.*}; TYPE, METHOD: the simple
 *              name; STATEMENTS: empty
 * @param edits what must change when the piece is copied into a unit, by rising offset
 */
record Piece(Kind kind, int start, int end, String name, List<Edit> edits) {
    enum Kind { IMPORT, TYPE, METHOD, STATEMENTS }

    boolean is(Kind wanted) {
        return kind == wanted;
    }
}
