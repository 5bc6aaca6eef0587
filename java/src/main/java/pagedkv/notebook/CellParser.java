package pagedkv.notebook;

import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.Trees;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.List;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;

/** Runs javac's own parser over a stretch of a cell; nothing is compiled. */
final class CellParser {
    private final Javac javac;

    CellParser(Javac javac) {
        this.javac = javac;
    }

    Parse parse(ParseContext context, String text, int from, int to) {
        return parse(context, text.substring(from, to), from);
    }

    /** Parses text that need not stand in the cell as it is (a semicolon was added), as if it began at {@code from}. */
    Parse parse(ParseContext context, String text, int from) {
        DiagnosticCollector<JavaFileObject> diagnostics = new DiagnosticCollector<>();
        JavacTask task = javac.parseTask(new Wrapped(context.wrap(text)), diagnostics);
        try {
            CompilationUnitTree file = task.parse().iterator().next();
            return new Parse(context, file, Trees.instance(task).getSourcePositions(), diagnostics.getDiagnostics(),
                    text, from);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static final class Wrapped extends SimpleJavaFileObject {
        private final String text;

        Wrapped(String text) {
            super(URI.create("cell:///parse/cell"), Kind.SOURCE);
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }
    }
}
