package pagedkv.notebook;

/**
 * What javac's parser is told to expect: the text put around a stretch of a cell to make it a compilation unit.
 *
 * <p>javac's public interface parses only whole files, and a cell is none. But it parses statements in a method, methods
 * and types in a class, imports on top of a file, and an expression in an initializer. Each context makes one of these.
 */
enum ParseContext {
    /** Statements; also the local types that javac allows there. */
    STATEMENTS("class Cell$Parse { void run() {", "\n}}"),
    /** Methods, and types with modifiers that only a member may have ({@code public}, {@code sealed}). */
    MEMBERS("class Cell$Parse {", "\n}"),
    /** Imports and a package line. */
    FILE("", ""),
    /** One expression without a semicolon that may not stand as a statement, like {@code 1 + 2}. */
    EXPRESSION("class Cell$Parse { Object value = (", "\n); }");

    /** The class that all contexts but FILE put around the text. */
    static final String WRAPPER_CLASS = "Cell$Parse";

    private final String prefix;
    private final String suffix;

    ParseContext(String prefix, String suffix) {
        this.prefix = prefix;
        this.suffix = suffix;
    }

    String wrap(String text) {
        return prefix + text + suffix;
    }

    int prefixLength() {
        return prefix.length();
    }
}
