package pagedkv.notebook;

import java.util.List;

/** Thrown inside this package when a cell cannot be accepted; carries what to tell the learner. */
final class RefusedCell extends Exception {
    private static final long serialVersionUID = 1;

    private final transient List<CellProblem> problems;
    private final transient List<String> notes;

    RefusedCell(List<CellProblem> problems, List<String> notes) {
        this.problems = problems;
        this.notes = notes;
    }

    RefusedCell(CellProblem problem) {
        this(List.of(problem), List.of());
    }

    List<CellProblem> problems() {
        return problems;
    }

    List<String> notes() {
        return notes;
    }
}
