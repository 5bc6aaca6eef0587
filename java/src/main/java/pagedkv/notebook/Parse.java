package pagedkv.notebook;

import com.sun.source.tree.BlockTree;
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.SourcePositions;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import javax.tools.Diagnostic;

/**
 * What javac's parser made of a text that stands at offset {@code from} of a cell, in one {@link ParseContext}: the trees of the
 * outermost level and the errors, all with offsets of the cell.
 */
final class Parse {
    /** A tree and the stretch of the cell that it covers. */
    record Found(Tree tree, int start, int end) {
    }

    /** A syntax error at an offset. */
    record Fault(int offset, String message) {
    }

    private final ParseContext context;
    private final CompilationUnitTree file;
    private final SourcePositions positions;
    private final String text;
    private final int from;
    private final List<Found> found = new ArrayList<>();
    private final List<Fault> faults = new ArrayList<>();

    Parse(ParseContext context, CompilationUnitTree file, SourcePositions positions,
          List<? extends Diagnostic<?>> diagnostics, String text, int from) {
        this.context = context;
        this.file = file;
        this.positions = positions;
        this.text = text;
        this.from = from;
        for (Diagnostic<?> diagnostic : diagnostics) {
            if (diagnostic.getKind() == Diagnostic.Kind.ERROR) {
                faults.add(new Fault(offset(diagnostic.getPosition()), diagnostic.getMessage(Locale.ROOT)));
            }
        }
        for (Tree tree : outermost()) {
            found.add(new Found(tree, start(tree), end(tree)));
        }
    }

    ParseContext context() {
        return context;
    }

    List<Found> found() {
        return found;
    }

    boolean ok() {
        return faults.isEmpty();
    }

    /** The trees that end before the first error, without the empty one that the parser puts where it stumbles. */
    List<Found> foundBeforeFault() {
        int limit = firstFault();
        return found.stream().filter(each -> each.start() < each.end() && each.end() <= limit).toList();
    }

    int firstFault() {
        return faults.stream().mapToInt(Fault::offset).min().orElse(Integer.MAX_VALUE);
    }

    /** The errors within the first broken tree. Later ones are mostly echoes: the parser expected something else there. */
    List<Fault> faultsOfBrokenTree() {
        int first = firstFault();
        int limit = found.stream().mapToInt(Found::end).filter(end -> end >= first).findFirst().orElse(first);
        return faults.stream().filter(fault -> fault.offset() <= limit).toList();
    }

    private List<? extends Tree> outermost() {
        if (context == ParseContext.FILE) {
            return headOfFile();
        }
        ClassTree wrapper = wrapper();
        noteEarlyEnd(wrapper);
        if (context != ParseContext.STATEMENTS) {
            return wrapper.getMembers();
        }
        BlockTree body = ((MethodTree) wrapper.getMembers().get(0)).getBody();
        noteEarlyEnd(body);
        return body.getStatements();
    }

    /** JDKs that know classes without a header (25) put one around a file in which methods or variables follow a class. */
    private ClassTree wrapper() {
        ClassTree outer = (ClassTree) file.getTypeDecls().get(0);
        boolean isWrapper = outer.getSimpleName().contentEquals(ParseContext.WRAPPER_CLASS);
        return isWrapper ? outer : (ClassTree) outer.getMembers().get(0);
    }

    private List<Tree> headOfFile() {
        List<Tree> head = new ArrayList<>();
        if (file.getPackage() != null) {
            head.add(file.getPackage());
        }
        head.addAll(file.getImports());
        return head;
    }

    /** A wrapper that ends inside the cell was closed by a brace of the cell that nothing had opened. */
    private void noteEarlyEnd(Tree wrapper) {
        int brace = (int) positions.getEndPosition(file, wrapper) - 1 - context.prefixLength();
        if (brace >= 0 && brace < text.length() && text.charAt(brace) == '}') {
            faults.add(0, new Fault(from + brace, "'}' without a matching '{'"));
        }
    }

    private int start(Tree tree) {
        return offset(positions.getStartPosition(file, tree));
    }

    int end(Tree tree) {
        return offset(positions.getEndPosition(file, tree));
    }

    private int offset(long position) {
        long offset = position - context.prefixLength() + from;
        return (int) Math.max(from, Math.min(offset, from + text.length()));
    }
}
