package pagedkv.notebook;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Compiles the cells of one notebook, one after the other, and keeps the types that they typed.
 *
 * <p>The state is one {@link Generation}. It is replaced as the last step of a cell that typed types, so a cell that is
 * refused on the way changes nothing.
 */
public final class CellCompiler {
    private final Javac javac;
    private final CellSplitter splitter;
    private final DefaultImports imports;
    private final ClassLoader parent;
    private Generation generation;

    /**
     * @param classPath as for javac: what cells are compiled against
     * @param parent    the loader through which cells see the same classes when they run
     */
    public CellCompiler(String classPath, ClassLoader parent) {
        this.javac = new Javac(classPath);
        this.splitter = new CellSplitter(new CellParser(javac));
        this.imports = new DefaultImports(javac);
        this.parent = parent;
        this.generation = Generation.empty(parent);
    }

    /**
     * Compiles a cell together with all types typed in earlier cells. Never throws for bad code.
     *
     * @param firstLine the number of the source's first line in the notebook cell (2, as the {@code %%java} line is 1)
     */
    public synchronized CompiledCell compile(String source, int firstLine) {
        CellSource cellSource = new CellSource(source, firstLine);
        try {
            SplitCell cell = splitter.split(cellSource);
            return cell.has(Piece.Kind.TYPE) ? startGeneration(cell) : joinGeneration(cell);
        } catch (RefusedCell refused) {
            return refusal(refused.problems(), refused.notes());
        } catch (ReflectiveOperationException | LinkageError e) {
            return refusal(List.of(cellSource.error(0, "compiled, but could not be loaded: " + e)), List.of());
        } catch (RuntimeException | StackOverflowError e) {
            return refusal(List.of(cellSource.error(0, "the compiler itself failed on this cell: " + e)), List.of());
        }
    }

    private CompiledCell refusal(List<CellProblem> problems, List<String> notes) {
        return new CompiledCell(false, problems, notes, generation.types(), List.of(), null);
    }

    private CompiledCell startGeneration(SplitCell cell) throws RefusedCell, ReflectiveOperationException {
        List<TypedCell> cells = generation.cellsWith(cell);
        Set<String> allTypes = Generation.namesIn(cells);
        BodyNames names = namesFor(cell, allTypes);
        List<CellUnit> units = new ArrayList<>();
        for (TypedCell each : cells) {
            units.add(UnitWriter.types(each.cell(), units.size(), imports, each.live(), allTypes));
        }
        units.addAll(statementUnits(cell, names, allTypes));
        Compilation compiled = Compilation.of(javac, cell, names, units, Map.of());
        Generation next = Generation.load(cells, compiled.classes(), parent);
        CellBody body = bodyOf(cell, names, next);
        generation = next;
        return accepted(cell, compiled, body);
    }

    private CompiledCell joinGeneration(SplitCell cell) throws RefusedCell, ReflectiveOperationException {
        Set<String> allTypes = generation.types().keySet();
        BodyNames names = namesFor(cell, allTypes);
        List<CellUnit> units = statementUnits(cell, names, allTypes);
        Compilation compiled = Compilation.of(javac, cell, names, units, generation.classFiles());
        generation.loader().add(compiled.classes());
        return accepted(cell, compiled, bodyOf(cell, names, generation));
    }

    private List<CellUnit> statementUnits(SplitCell cell, BodyNames names, Set<String> allTypes) {
        List<CellUnit> units = new ArrayList<>();
        if (cell.has(Piece.Kind.METHOD)) {
            units.add(UnitWriter.methods(cell, names, imports, allTypes));
        }
        if (cell.has(Piece.Kind.STATEMENTS)) {
            units.add(UnitWriter.body(cell, names, imports, allTypes));
        }
        return units;
    }

    private BodyNames namesFor(SplitCell cell, Set<String> allTypes) {
        Set<String> taken = new HashSet<>(allTypes);
        if (!cell.has(Piece.Kind.TYPE)) {
            taken.addAll(generation.loader().classNames());
        }
        for (String imported : cell.namesOf(Piece.Kind.IMPORT)) {
            taken.add(imported.substring(imported.lastIndexOf('.') + 1));
        }
        return BodyNames.avoiding(taken, cell.namesOf(Piece.Kind.METHOD));
    }

    private static CellBody bodyOf(SplitCell cell, BodyNames names, Generation home) throws ReflectiveOperationException {
        return cell.has(Piece.Kind.STATEMENTS) ? LoadedBody.in(home.loader(), names) : null;
    }

    private CompiledCell accepted(SplitCell cell, Compilation compiled, CellBody body) {
        List<String> notes = new ArrayList<>(compiled.notes());
        if (cell.has(Piece.Kind.METHOD) && body == null) {
            notes.add("a method outside a class is seen only by the statements of its own cell; put it into a class");
        }
        return new CompiledCell(true, compiled.warnings(), List.copyOf(notes), generation.types(),
                cell.namesOf(Piece.Kind.TYPE), body);
    }
}
