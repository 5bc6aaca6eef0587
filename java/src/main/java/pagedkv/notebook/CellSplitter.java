package pagedkv.notebook;

import com.sun.source.tree.ClassTree;
import com.sun.source.tree.EmptyStatementTree;
import com.sun.source.tree.ExpressionStatementTree;
import com.sun.source.tree.ImportTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.PackageTree;
import com.sun.source.tree.Tree;
import com.sun.source.tree.VariableTree;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.lang.model.element.Modifier;

/**
 * Cuts a cell into pieces with javac's own parser, so that strings, comments and new syntax need no rules here.
 *
 * <p>From the current offset the rest of the cell is parsed as statements, as members, as the head of a file; whatever
 * the parser understood before its first error is taken, and the next round starts behind it. Only a change of kind
 * costs a round. A part is believed only if it also parses alone: {@code int f} in {@code int f(int x) {...}} looks like
 * a variable until then. Where no context gets any further there is a syntax error, and the context that came furthest
 * has the most sensible thing to say about it.
 */
final class CellSplitter {
    private static final Pattern PRIVATE = Pattern.compile("\\bprivate\\b");
    private static final String PRINT = "java.lang.System.out.println(java.util.Objects.toString(";

    private final CellParser parser;

    CellSplitter(CellParser parser) {
        this.parser = parser;
    }

    SplitCell split(CellSource source) throws RefusedCell {
        return new SplitCell(source, new Round(source).split());
    }

    /** The state of one split: how far it has come. */
    private final class Round {
        private final CellSource source;
        private final String text;
        private final List<Piece> pieces = new ArrayList<>();
        private int at;

        Round(CellSource source) {
            this.source = source;
            this.text = source.text();
        }

        List<Piece> split() throws RefusedCell {
            while (true) {
                Parse statements = parse(ParseContext.STATEMENTS);
                if (statements.ok()) {
                    addAll(statements, statements.found());
                    return pieces;
                }
                if (take(statements, tree -> true)) {
                    continue;
                }
                Parse members = parse(ParseContext.MEMBERS);
                if (take(members, tree -> tree instanceof ClassTree || tree instanceof MethodTree)) {
                    continue;
                }
                Parse head = parse(ParseContext.FILE);
                if (take(head, tree -> true)) {
                    continue;
                }
                if (takeLastExpression()) {
                    return pieces;
                }
                throw syntaxError(statements, members, head);
            }
        }

        private Parse parse(ParseContext context) {
            return parser.parse(context, text, at, text.length());
        }

        /** Takes the leading trees of a wanted kind that also parse alone; false if there is none. */
        private boolean take(Parse parse, Predicate<Tree> wanted) throws RefusedCell {
            List<Parse.Found> good = parse.foundBeforeFault().stream().takeWhile(each -> wanted.test(each.tree())).toList();
            while (!good.isEmpty() && !parsesAlone(parse.context(), good)) {
                good = good.subList(0, good.size() - 1);
            }
            int before = at;
            addAll(parse, good);
            return at > before;
        }

        private boolean parsesAlone(ParseContext context, List<Parse.Found> trees) {
            return parser.parse(context, text, at, trees.get(trees.size() - 1).end()).ok();
        }

        private void addAll(Parse parse, List<Parse.Found> trees) throws RefusedCell {
            for (Parse.Found each : trees) {
                add(parse, each);
                at = Math.max(at, each.end());
            }
        }

        private void add(Parse parse, Parse.Found each) throws RefusedCell {
            if (each.tree() instanceof PackageTree) {
                throw new RefusedCell(source.error(each.start(),
                        "a cell has no package line: types typed in a notebook live in the default package"));
            } else if (each.tree() instanceof ImportTree tree) {
                pieces.add(importPiece(each, tree));
            } else if (each.tree() instanceof ClassTree tree) {
                pieces.add(new Piece(Piece.Kind.TYPE, each.start(), each.end(), tree.getSimpleName().toString(), List.of()));
            } else if (each.tree() instanceof MethodTree tree) {
                pieces.add(methodPiece(parse, each, tree));
            } else if (!(each.tree() instanceof EmptyStatementTree)) {
                addStatement(each.start(), each.end());
            }
        }

        /** All imports of a cell share one line of a unit, so one that is spread over lines is written anew. */
        private Piece importPiece(Parse.Found each, ImportTree tree) {
            int length = each.end() - each.start();
            boolean oneLine = text.substring(each.start(), each.end()).indexOf('\n') < 0;
            List<Edit> edits = oneLine ? List.of() : List.of(new Edit(each.start(), length, tree.toString().strip()));
            return new Piece(Piece.Kind.IMPORT, each.start(), each.end(), tree.getQualifiedIdentifier().toString(), edits);
        }

        /** A method becomes static, and not private: the statements see it by inheritance (see {@link UnitWriter}). */
        private Piece methodPiece(Parse parse, Parse.Found each, MethodTree tree) {
            List<Edit> edits = new ArrayList<>();
            if (!tree.getModifiers().getFlags().contains(Modifier.STATIC)) {
                edits.add(Edit.insert(each.start(), "static "));
            }
            if (tree.getModifiers().getFlags().contains(Modifier.PRIVATE)) {
                Matcher word = PRIVATE.matcher(text).region(each.start(), parse.end(tree.getModifiers()));
                if (word.find()) {
                    edits.add(new Edit(word.start(), word.end() - word.start(), ""));
                }
            }
            return new Piece(Piece.Kind.METHOD, each.start(), each.end(), tree.getName().toString(), edits);
        }

        /** Joins a statement to the piece before it if that holds statements; {@code int a, b;} is two overlapping trees. */
        private void addStatement(int start, int end) {
            Piece last = pieces.isEmpty() ? null : pieces.get(pieces.size() - 1);
            if (last != null && last.is(Piece.Kind.STATEMENTS)) {
                pieces.set(pieces.size() - 1, statements(last.start(), end, List.of()));
            } else {
                pieces.add(statements(start, end, List.of()));
            }
        }

        private Piece statements(int start, int end, List<Edit> edits) {
            return new Piece(Piece.Kind.STATEMENTS, start, end, "", edits);
        }

        /** A cell may end in an expression without a semicolon: a call or assignment is done, a mere value is printed. */
        private boolean takeLastExpression() {
            String rest = text.substring(at);
            int end = text.length();
            Parse closed = parser.parse(ParseContext.STATEMENTS, rest + "\n;", at);
            if (isOneExpression(closed)) {
                pieces.add(statements(closed.found().get(0).start(), end, List.of(Edit.insert(end, "\n;"))));
                return true;
            }
            Parse value = parser.parse(ParseContext.EXPRESSION, rest, at);
            if (value.ok() && value.found().size() == 1) {
                int start = at + rest.length() - rest.stripLeading().length();
                pieces.add(statements(start, end, List.of(Edit.insert(start, PRINT), Edit.insert(end, "\n));"))));
                return true;
            }
            return false;
        }

        private boolean isOneExpression(Parse closed) {
            return closed.ok() && closed.found().size() == 1
                    && closed.found().get(0).tree() instanceof ExpressionStatementTree;
        }

        private RefusedCell syntaxError(Parse statements, Parse members, Parse head) {
            if (startsWithField(statements, members)) {
                return new RefusedCell(source.error(statements.firstFault(),
                        "a variable of a cell takes no modifier but final: it lives only within the cell"));
            }
            Parse furthest = Stream.of(statements, members, head).filter(parse -> !parse.ok())
                    .max(Comparator.comparingInt(Parse::firstFault)).orElseThrow();
            List<CellProblem> problems = furthest.faultsOfBrokenTree().stream()
                    .map(fault -> source.error(Math.min(fault.offset(), source.lastOffset()), fault.message())).toList();
            return new RefusedCell(problems, List.of());
        }

        /** Something like {@code private int x;}: right in a class, and broken at its first word in a cell. */
        private boolean startsWithField(Parse statements, Parse members) {
            List<Parse.Found> good = members.foundBeforeFault();
            return !good.isEmpty() && good.get(0).tree() instanceof VariableTree
                    && good.get(0).start() == statements.firstFault();
        }
    }
}
