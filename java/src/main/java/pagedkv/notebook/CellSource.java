package pagedkv.notebook;

/**
 * The text of one cell and the way from an offset in it to a line and column of the notebook.
 *
 * <p>An offset counts characters from the start of the text. Line ends are normalised to {@code \n} first, so that
 * javac and this class count the same lines.
 */
final class CellSource {
    private final String text;
    private final int firstLine;

    CellSource(String text, int firstLine) {
        this.text = text.replace("\r\n", "\n").replace('\r', '\n');
        this.firstLine = Math.max(1, firstLine);
    }

    String text() {
        return text;
    }

    int firstLine() {
        return firstLine;
    }

    CellProblem error(int offset, String message) {
        return problem("error", offset, message);
    }

    CellProblem problem(String severity, int offset, String message) {
        int at = Math.max(0, Math.min(offset, text.length()));
        int lineStart = text.lastIndexOf('\n', at - 1) + 1;
        int lineEnd = text.indexOf('\n', at);
        String line = text.substring(lineStart, lineEnd < 0 ? text.length() : lineEnd);
        return new CellProblem(severity, lineOf(at), at - lineStart + 1, message, line);
    }

    int lineOf(int offset) {
        return firstLine + (int) text.substring(0, offset).chars().filter(c -> c == '\n').count();
    }

    /** Where the last character that is not white space ends: errors "at the end of the file" are shown there. */
    int lastOffset() {
        return text.stripTrailing().length();
    }
}
