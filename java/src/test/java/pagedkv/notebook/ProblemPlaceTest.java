package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Locale;
import org.junit.jupiter.api.Test;

/** Errors and warnings point at the notebook cell's own line and column, whatever the cell is cut into. */
class ProblemPlaceTest {
    private final Notebook notebook = new Notebook();

    private void assertError(int line, int column, String message, String source) {
        CellProblem problem = notebook.firstError(source);
        assertEquals("error", problem.severity());
        assertEquals(message, problem.message().lines().findFirst().orElseThrow());
        assertEquals(line + ":" + column, problem.line() + ":" + problem.column());
    }

    @Test
    void missingSemicolonAtTheEndOfACell() {
        assertError(3, 10, "';' expected", "\nint x = 5");
    }

    @Test
    void missingSemicolonBetweenStatements() {
        assertError(3, 10, "';' expected", "int a = 1;\nint x = 5\nint y = 6;");
        assertError(2, 23, "';' expected", "int[] numbers = {1, 2}\nSystem.out.println(1);");
    }

    @Test
    void syntaxErrorInTheMiddleOfAMixedCell() {
        assertError(6, 17, "';' expected",
                "import java.net.URI;\nint a = 1;\npublic class A {\n    int f() {\n        return 1\n    }\n}\n"
                        + "int g() { return 2; }\na++;");
    }

    @Test
    void allSyntaxErrorsOfABrokenTypeButNoEchoesBehindIt() {
        CompiledCell cell = notebook.refuse("class A {\n  int x = 5\n  int y = 6\n}\nvoid f() { }\nf();");
        assertEquals("[3, 4]", cell.problems().stream().map(CellProblem::line).toList().toString());
    }

    @Test
    void unknownNameInEachUnitOfAMixedCell() {
        String head = "import java.net.URI;\nint a = 1;\n";
        assertError(5, 13, "cannot find symbol", head + "public class A {\n    int x = typo;\n}\nint f() { return 2; }\na++;");
        assertError(5, 18, "cannot find symbol", head + "class A { }\nint f() { return typo; }\na++;");
        assertError(6, 3, "cannot find symbol", head + "class A { }\nint f() { return 2; }\n  typo++;");
    }

    @Test
    void insertedTextShiftsNoColumn() {
        assertError(2, 9, "cannot find symbol", "int f(){typo(); return 1; }");
        assertError(2, 29, "cannot find symbol", "private static int f(int x){typo(); return 1; }");
        assertError(2, 5, "cannot find symbol", "1 + typo");
    }

    @Test
    void unknownImport() {
        assertError(4, 15, "package no.such does not exist", "class A { }\n\nimport no.such.Thing;\nint x = 1;");
        assertEquals(1, notebook.refuse("import no.such.Thing; class A { } int f() { return 1; } f();").problems().size());
    }

    @Test
    void importOverSeveralLinesShiftsNoLine() {
        assertError(6, 1, "cannot find symbol", "import // why\n  java.util\n  .List;\nclass A { }\ntypo();");
    }

    @Test
    void missingBraceIsReportedAtTheEnd() {
        assertError(3, 7, "reached end of file while parsing", "class A {\nint x;\n\n");
    }

    @Test
    void braceTooMany() {
        assertError(3, 1, "'}' without a matching '{'", "int x = 1;\n} int y = 2;");
        assertError(3, 1, "'}' without a matching '{'", "public class A { }\n}");
        assertError(2, 1, "'}' without a matching '{'", "} void f() {");
        assertError(2, 1, "'}' without a matching '{'", "}} class B { void f() { int x = 1;");
    }

    @Test
    void unclosedStringCommentAndTextBlock() {
        assertError(3, 12, "unclosed string literal", "int x = 1;\nString s = \"a;\nint y = 2;");
        assertError(3, 1, "unclosed comment", "int x = 1;\n/* and so on");
        assertError(2, 12, "unclosed text block", "String s = \"\"\"\n  abc");
    }

    @Test
    void aFieldLikeVariable() {
        assertError(3, 1, "a variable of a cell takes no modifier but final: it lives only within the cell",
                "int a = 1;\nprivate static int count = 0;\ncount++;");
    }

    @Test
    void aValueWithASemicolonIsNotAStatement() {
        assertError(2, 3, "not a statement", "1 + 2;");
    }

    @Test
    void flowErrors() {
        assertError(3, 1, "variable x might not have been initialized", "int x;\nx++;");
        assertError(4, 5, "unreachable statement", "while (true) {\n}\nint y = 1;");
    }

    @Test
    void tabsCountAsOneColumn() {
        assertError(3, 3, "cannot find symbol", "int a = 1;\n\t\ttypo();");
    }

    @Test
    void windowsLineEndsAndFirstLineOne() {
        CellProblem problem = notebook.compiler.compile("int a = 1;\r\n  typo();", 1).problems().get(0);
        assertEquals("2:3:  typo();", problem.line() + ":" + problem.column() + ":" + problem.sourceLine());
    }

    @Test
    void lintIsAWarningAtItsPlaceAndTheCellIsAccepted() {
        CompiledCell cell = notebook.accept("int a = 1;\nclass Box {\n    List raw = new ArrayList<String>();\n}");
        assertEquals("warning 4:5", cell.problems().get(0).severity() + " " + cell.problems().get(0).line() + ":"
                + cell.problems().get(0).column());
        assertEquals(1, cell.problems().size());
    }

    @Test
    void warningsOfEarlierCellsAreNotRepeated() {
        notebook.accept("class Box { List raw; }");
        assertTrue(notebook.accept("class Other { }").problems().isEmpty());
    }

    @Test
    void cleanCellsGiveNoWarnings() {
        assertTrue(notebook.accept("/** Doc. */ public class A implements java.io.Serializable { public A() { f(); } "
                + "public void f() { } }\nint g() { return 1; }\n1 + g()").problems().isEmpty());
    }

    @Test
    void theTextsAreEnglishInEveryLocale() {
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.JAPANESE);
        try {
            assertError(2, 10, "';' expected", "int x = 5");
        } finally {
            Locale.setDefault(before);
        }
    }

    @Test
    void unknownVariableGetsANote() {
        notebook.accept("int x = 5;");
        CompiledCell cell = notebook.refuse("System.out.println(x);");
        assertEquals("[x: variables live only within one cell, and Python's are not visible here; classes stay]", cell.notes().toString());
        assertEquals("cannot find symbol\n  symbol:   variable x", cell.problems().get(0).message());
    }

    @Test
    void aMissingImportGetsANote() {
        notebook.accept("import java.util.concurrent.*; Executor e = null;");
        assertEquals("[Executor: imports hold only for the cell they stand in; is one missing here?]",
                notebook.refuse("Executor e = null;").notes().toString());
        assertEquals("[Executors: imports hold only for the cell they stand in; is one missing here?]",
                notebook.refuse("Executors.newCachedThreadPool();").notes().toString());
    }

    @Test
    void aMistypedFieldGetsNoNote() {
        assertTrue(notebook.refuse("String s = \"\"; int n = s.lenght;").notes().isEmpty());
    }

    @Test
    void nothingAtAllIsAccepted() {
        for (String source : new String[] {"", "\n\n", "// comment", ";"}) {
            CompiledCell cell = notebook.accept(source);
            assertEquals(null, cell.body());
        }
    }

    @Test
    void garbageNeverThrows() {
        for (String source : new String[] {"}", "{", "\u0000", "\"", "'", "@", "class", "import", "package", "#", "\\u000",
            "a b c d", ")", "class A { ", "\uD83D\uDE00", "x ->", "case 1:", "else", "int", "<T>", "enum { A }", "/*",
            "1); } Object o = (2", "} int y = 2; class Z {", "}} int y = 2; class Z { void f() {"}) {
            assertTrue(!notebook.refuse(source).problems().isEmpty(), source);
        }
    }

    @Test
    void aCellTooDeepForTheParserIsRefused() {
        notebook.refuse("int x = " + "(".repeat(100_000) + "1" + ")".repeat(100_000) + ";");
    }
}
