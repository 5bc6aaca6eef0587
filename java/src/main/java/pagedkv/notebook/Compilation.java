package pagedkv.notebook;

import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreePath;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * What compiling one cell gave: class files by binary name, warnings, notes.
 *
 * <p>The cell is compiled in two steps, so that calls that would end the kernel are found with the compiler's own
 * knowledge before any class exists.
 */
record Compilation(Map<String, byte[]> classes, List<CellProblem> warnings, List<String> notes) {

    /**
     * @param units everything to compile: the cell's own units and those of earlier types
     * @param known class files of types that are used as they are
     */
    static Compilation of(Javac javac, SplitCell cell, BodyNames names, List<CellUnit> units, Map<String, byte[]> known)
            throws RefusedCell {
        if (units.isEmpty()) {
            return new Compilation(Map.of(), List.of(), List.of());
        }
        Diagnosed diagnosed = new Diagnosed(cell, names);
        MemoryFiles memory = javac.memoryFiles(known);
        JavacTask task = javac.compileTask(memory, diagnosed, units);
        try {
            Iterable<? extends CompilationUnitTree> trees = task.parse();
            task.analyze();
            diagnosed.warningsOrRefuse();
            refuseExits(task, trees, units, cell, diagnosed);
            List<String> notes = VisibilityNotes.about(task, cell.namesOf(Piece.Kind.TYPE));
            task.generate();
            return new Compilation(memory.written(), diagnosed.warningsOrRefuse(), notes);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void refuseExits(JavacTask task, Iterable<? extends CompilationUnitTree> trees, List<CellUnit> units,
                                    SplitCell cell, Diagnosed diagnosed) throws RefusedCell {
        Map<URI, CellUnit> ownUnits = units.stream().filter(unit -> unit.cell() == cell)
                .collect(Collectors.toMap(CellUnit::toUri, unit -> unit));
        for (CompilationUnitTree tree : trees) {
            CellUnit unit = ownUnits.get(tree.getSourceFile().toUri());
            if (unit != null) {
                new ExitGuard(task, (position, message) ->
                        diagnosed.add(cell.source().error(unit.cellOffset(position), message))).scan(new TreePath(tree), tree);
            }
        }
        diagnosed.warningsOrRefuse();
    }
}
