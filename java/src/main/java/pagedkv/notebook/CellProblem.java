package pagedkv.notebook;

/**
 * What the compiler has to say about one place in a cell.
 *
 * @param severity   "error" or "warning"
 * @param line       line of the notebook cell, counted from 1 (the {@code %%java} line)
 * @param column     character of that line, counted from 1; a tab counts as one character
 * @param message    javac's words, or ours
 * @param sourceLine the text of the line
 */
public record CellProblem(String severity, int line, int column, String message, String sourceLine) {
    private static final String INDENT = "    ";

    boolean isError() {
        return severity.equals("error");
    }

    /** The message, the line, and a caret under the column; the caret line repeats the line's tabs so that both align. */
    @Override
    public String toString() {
        return severity + " in line " + line + ": " + message + "\n" + INDENT + sourceLine + "\n" + INDENT + margin() + "^";
    }

    private String margin() {
        int width = Math.max(0, column - 1);
        String before = sourceLine.substring(0, Math.min(width, sourceLine.length()));
        return before.replaceAll("[^\t]", " ") + " ".repeat(width - before.length());
    }
}
