package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class CellSplitterTest {
    private final CellSplitter splitter = new CellSplitter(new CellParser(new Javac("")));

    private SplitCell split(String text) {
        try {
            return splitter.split(new CellSource(text, 2));
        } catch (RefusedCell e) {
            throw new AssertionError(e.problems().toString());
        }
    }

    /** The pieces as "KIND[text]". */
    private String pieces(String text) {
        return split(text).pieces().stream()
                .map(piece -> piece.kind() + "[" + text.substring(piece.start(), piece.end()) + "]")
                .collect(Collectors.joining(" "));
    }

    @Test
    void everyKindMayStandAnywhere() {
        assertEquals("STATEMENTS[int a = 1;] IMPORT[import java.net.URI;] TYPE[public class A { }] STATEMENTS[a++; foo();] "
                        + "METHOD[int f(int x) { return x; }] TYPE[enum E { X }] STATEMENTS[f(a);]",
                pieces("int a = 1;\nimport java.net.URI; public class A { }\na++; foo();\nint f(int x) { return x; }\n"
                        + "enum E { X } f(a);"));
    }

    @Test
    void commentsBelongToNoPiece() {
        assertEquals("TYPE[class A { /* { */ }] STATEMENTS[foo(); // class C {\nbar();]",
                pieces("// class B {\nclass A { /* { */ } // }\n/* x */ foo(); // class C {\nbar(); // end"));
    }

    @Test
    void onlyCommentsIsNoPiece() {
        assertEquals("", pieces("  // nothing\n/* at all */ ;"));
    }

    @Test
    void allTypeDeclarationsAreTypes() {
        assertEquals("TYPE[@FunctionalInterface interface F<T> { T f(); }] TYPE[record P<T extends Comparable<T>>(T x) { }] "
                        + "TYPE[@interface Q { int value() default 1; }] TYPE[sealed interface S { }] "
                        + "TYPE[final class L implements S { }] TYPE[non-sealed class M implements S { }]",
                pieces("@FunctionalInterface interface F<T> { T f(); } record P<T extends Comparable<T>>(T x) { } "
                        + "@interface Q { int value() default 1; } sealed interface S { } final class L implements S { } "
                        + "non-sealed class M implements S { }"));
    }

    @Test
    void methodsOfAnyShapeAreMethods() {
        assertEquals("METHOD[void a() { }] METHOD[static int b() { return 1; }] METHOD[<T> T c(T t) { return t; }] "
                        + "METHOD[List<String> d() throws Exception { return null; }] "
                        + "METHOD[@Deprecated private int[] e() { return null; }]",
                pieces("void a() { } static int b() { return 1; } <T> T c(T t) { return t; } "
                        + "List<String> d() throws Exception { return null; } @Deprecated private int[] e() { return null; }"));
    }

    @Test
    void statementsOfAnyShapeAreStatements() {
        String text = "var list = new ArrayList<Map<String, int[]>>();\nouter: for (;;) { break outer; }\n"
                + "Runnable r = () -> { class Local { } };\nString s = \"\"\"\n  class X { ' \" }\n  \"\"\";\n"
                + "if (a) b(); else c();\n{ int y = 1; }\nint p = 1, q = 2;\nswitch (p) { case 1 -> foo(); default -> { } }\n"
                + "try (var in = open()) { } finally { }\nthrow new Error();";
        assertEquals("STATEMENTS[" + text + "]", pieces(text));
    }

    @Test
    void namesAreThoseDeclared() {
        SplitCell cell = split("import java.awt.*; import static java.lang.Math.max; class A<T> { } int f() { return 1; }");
        assertEquals("[java.awt.*, java.lang.Math.max]", cell.namesOf(Piece.Kind.IMPORT).toString());
        assertEquals("[A]", cell.namesOf(Piece.Kind.TYPE).toString());
        assertEquals("[f]", cell.namesOf(Piece.Kind.METHOD).toString());
    }

    @Test
    void aPackageLineIsRefusedWithASentence() {
        CellSource source = new CellSource("// mine\npackage a.b;\nclass C { }", 2);
        CellProblem problem = assertThrows(RefusedCell.class, () -> splitter.split(source)).problems().get(0);
        assertEquals(3, problem.line());
        assertEquals("a cell has no package line: types typed in a notebook live in the default package", problem.message());
    }
}
