package pagedkv.notebook;

import java.util.List;
import java.util.Map;

/**
 * What came of one cell.
 *
 * @param ok       whether the cell was accepted; if not, nothing has changed
 * @param problems errors and warnings of this cell, in the order of javac
 * @param notes    sentences that explain a problem or a trap
 * @param types    every type alive now: simple name → class of the newest generation, in the order typed
 * @param declared simple names of the types typed in this cell; empty if it was refused
 * @param body     the bare statements, or null if there are none or the cell was refused
 */
public record CompiledCell(boolean ok, List<CellProblem> problems, List<String> notes, Map<String, Class<?>> types,
                           List<String> declared, CellBody body) {
}
