package pagedkv.notebook;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticListener;
import javax.tools.JavaFileObject;

/**
 * What javac said while compiling a cell together with the types of earlier cells, put in the words of the cell.
 *
 * <p>Errors of the cell itself come first: while it has some, what they do to earlier types is no news. Only if the cell
 * is right in itself are errors in earlier types reported, at the declaration in this cell that caused them. Warnings of
 * earlier cells were given when those were typed.
 */
final class Diagnosed implements DiagnosticListener<JavaFileObject> {
    private static final Pattern UNKNOWN = Pattern.compile("symbol: +(variable|class) (\\w+)\\s+location: class");

    private final SplitCell cell;
    private final BodyNames names;
    private final Set<CellProblem> problems = new LinkedHashSet<>();
    private final List<CellProblem> earlierProblems = new ArrayList<>();
    private final Set<String> notes = new LinkedHashSet<>();

    Diagnosed(SplitCell cell, BodyNames names) {
        this.cell = cell;
        this.names = names;
    }

    @Override
    public void report(Diagnostic<? extends JavaFileObject> diagnostic) {
        String severity = severityOf(diagnostic.getKind());
        if (severity == null) {
            return;
        }
        String message = diagnostic.getMessage(Locale.ROOT);
        if (!(diagnostic.getSource() instanceof CellUnit unit)) {
            reportWithoutPlace(severity, message);
        } else if (unit.cell() == cell) {
            explain(message);
            problems.add(cell.source().problem(severity, unit.cellOffset(diagnostic.getPosition()), withoutOurNames(message)));
        } else if (severity.equals("error")) {
            earlierProblems.add(brokenEarlierType(unit, unit.cellOffset(diagnostic.getPosition()), message));
        }
    }

    void add(CellProblem problem) {
        problems.add(problem);
    }

    /** This cell's warnings; there are no errors. */
    List<CellProblem> warningsOrRefuse() throws RefusedCell {
        boolean ownError = problems.stream().anyMatch(CellProblem::isError);
        if (ownError) {
            throw new RefusedCell(List.copyOf(problems), List.copyOf(notes));
        }
        if (!earlierProblems.isEmpty()) {
            throw new RefusedCell(List.copyOf(earlierProblems), List.of());
        }
        return List.copyOf(problems);
    }

    private static String severityOf(Diagnostic.Kind kind) {
        return switch (kind) {
            case ERROR -> "error";
            case WARNING, MANDATORY_WARNING -> "warning";
            case NOTE, OTHER -> null;
        };
    }

    /** A warning without a place is about options or the class path, which are not the learner's. */
    private void reportWithoutPlace(String severity, String message) {
        if (severity.equals("error")) {
            problems.add(cell.source().error(0, message));
        }
    }

    private void explain(String message) {
        Matcher unknown = UNKNOWN.matcher(message);
        if (unknown.find()) {
            String name = unknown.group(2);
            notes.add(name + (Character.isUpperCase(name.charAt(0))
                    ? ": imports hold only for the cell they stand in; is one missing here?"
                    : ": variables live only within one cell, and Python's are not visible here; classes stay"));
        }
    }

    /** "location: class Cell" would name a class that the learner never wrote. */
    private String withoutOurNames(String message) {
        return message.replaceFirst("\\n *location: class (" + names.bodyClass() + "|" + names.methodsClass() + ")$", "");
    }

    private CellProblem brokenEarlierType(CellUnit unit, int offset, String message) {
        Piece broken = unit.cell().pieceAt(offset);
        CellProblem there = unit.cell().source().error(offset, message);
        String who = broken == null ? "a type typed earlier" : broken.name() + ", typed in an earlier cell,";
        List<Piece> typed = cell.all(Piece.Kind.TYPE);
        return cell.source().error(typed.get(0).start(), who + " would no longer compile with "
                + String.join(", ", cell.namesOf(Piece.Kind.TYPE)) + ": " + message
                + "\n  in its line " + there.line() + ": " + there.sourceLine().strip());
    }
}
