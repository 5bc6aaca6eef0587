package pagedkv.notebook;

import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * Writes the pieces of a cell as units for javac.
 *
 * <p>A cell becomes up to three units, because the pieces of one kind may stand anywhere between the others:
 * <pre>
 *   types     imports, then each type
 *   methods   imports, class CellMethods { each method, made static }
 *   body      imports, class Cell extends CellMethods { static void run() throws Throwable { the statements } }
 * </pre>
 * In each unit a piece stands on the lines that it has in the notebook, and what belongs to another unit is blanked
 * out. What goes before (imports, opening braces) shares line 1, the {@code %%java} line.
 */
final class UnitWriter {
    private final SplitCell cell;
    private final String cellText;
    private final StringBuilder text = new StringBuilder();
    private final TreeMap<Integer, CellUnit.Segment> segments = new TreeMap<>();

    private UnitWriter(SplitCell cell) {
        this.cell = cell;
        this.cellText = cell.source().text();
    }

    /** The types of a cell that are still alive, together: a sealed type may leave out its permits clause only so. */
    static CellUnit types(SplitCell cell, int number, DefaultImports imports, Set<String> live, Set<String> allTypes) {
        return new UnitWriter(cell).write("types/" + number, imports, allTypes, "",
                piece -> piece.is(Piece.Kind.TYPE) && live.contains(piece.name()), "");
    }

    static CellUnit methods(SplitCell cell, BodyNames names, DefaultImports imports, Set<String> allTypes) {
        return new UnitWriter(cell).write("methods", imports, allTypes, "class " + names.methodsClass() + " {",
                piece -> piece.is(Piece.Kind.METHOD), "}");
    }

    static CellUnit body(SplitCell cell, BodyNames names, DefaultImports imports, Set<String> allTypes) {
        String parent = cell.has(Piece.Kind.METHOD) ? " extends " + names.methodsClass() : "";
        String opening = "class " + names.bodyClass() + parent + " { static void " + names.runMethod()
                + "() throws java.lang.Throwable {";
        return new UnitWriter(cell).write("body", imports, allTypes, opening,
                piece -> piece.is(Piece.Kind.STATEMENTS), "}}");
    }

    private CellUnit write(String path, DefaultImports imports, Set<String> allTypes, String opening,
                           Predicate<Piece> wanted, String closing) {
        List<Piece> ofCell = cell.all(Piece.Kind.IMPORT);
        insert(imports.linesBefore(ofCell, allTypes), 0);
        ofCell.forEach(this::copy);
        insert(opening + "\n".repeat(cell.source().firstLine() - 1), 0);
        int at = 0;
        for (Piece piece : cell.pieces()) {
            if (wanted.test(piece)) {
                blank(at, piece.start());
                copy(piece);
                at = piece.end();
            }
        }
        insert(closing, at);
        return new CellUnit(path, cell, text.toString(), segments);
    }

    private void blank(int start, int end) {
        insert(cellText.substring(start, end).replaceAll("[^\n]", " "), start);
    }

    private void copy(Piece piece) {
        int at = piece.start();
        for (Edit edit : piece.edits()) {
            copy(at, edit.offset());
            insert(edit.inserted(), edit.offset());
            at = edit.offset() + edit.removed();
        }
        copy(at, piece.end());
    }

    private void copy(int start, int end) {
        segments.put(text.length(), new CellUnit.Segment(text.length(), start, true));
        text.append(cellText, start, end);
    }

    private void insert(String inserted, int offset) {
        segments.put(text.length(), new CellUnit.Segment(text.length(), offset, false));
        text.append(inserted);
    }
}
