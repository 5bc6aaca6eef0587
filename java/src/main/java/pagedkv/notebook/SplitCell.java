package pagedkv.notebook;

import java.util.List;

/** A cell that parses, with its pieces in the order of the text. Between the pieces lie only white space and comments. */
record SplitCell(CellSource source, List<Piece> pieces) {
    List<Piece> all(Piece.Kind kind) {
        return pieces.stream().filter(piece -> piece.is(kind)).toList();
    }

    boolean has(Piece.Kind kind) {
        return pieces.stream().anyMatch(piece -> piece.is(kind));
    }

    List<String> namesOf(Piece.Kind kind) {
        return all(kind).stream().map(Piece::name).toList();
    }

    /** The piece that holds an offset, or null: an import's error can lie elsewhere. */
    Piece pieceAt(int offset) {
        return pieces.stream().filter(piece -> piece.start() <= offset && offset <= piece.end()).findFirst().orElse(null);
    }
}
