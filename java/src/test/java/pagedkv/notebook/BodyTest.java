package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import org.junit.jupiter.api.Test;

/** What a cell's statements and methods do when they run. */
class BodyTest {
    private final Notebook notebook = new Notebook();

    @Test
    void aMixedCellRunsInOrder() {
        assertEquals("1\n42\nHI\n", notebook.run("int a = 1;\nSystem.out.println(a);\nclass Pair { int x = 42; }\n"
                + "import java.util.Locale;\nint twice(int n) { return 2 * n; }\nSystem.out.println(new Pair().x);\n"
                + "String up(String s) { return s.toUpperCase(Locale.ROOT); }\nSystem.out.println(up(\"hi\"));"));
    }

    @Test
    void statementsSeeTypesOfEarlierCellsAlsoPackagePrivateOnes() {
        notebook.accept("class Counter { int total; void bump() { total++; } }");
        assertEquals("1\n", notebook.run("Counter c = new Counter(); c.bump(); System.out.println(c.total);"));
    }

    @Test
    void variablesDoNotCarryOver() {
        notebook.run("int x = 1;");
        notebook.refuse("x++;");
    }

    @Test
    void staticFieldsOutliveACellOfStatements() {
        notebook.accept("class Counter { static int total; }");
        notebook.run("Counter.total = 7;");
        assertEquals("7\n", notebook.run("System.out.println(Counter.total);"));
    }

    @Test
    void methodsAreSeenOnlyByTheirOwnCell() {
        CompiledCell cell = notebook.accept("int one() { return 1; }");
        assertNull(cell.body());
        assertEquals("[a method outside a class is seen only by the statements of its own cell; put it into a class]",
                cell.notes().toString());
        notebook.refuse("one();");
    }

    @Test
    void methodsMayCallEachOtherAndBePrivateOrGeneric() {
        assertEquals("720 x\n", notebook.run("System.out.println(fact(6) + \" \" + same(\"x\"));\n"
                + "private static int fact(int n) { return n < 2 ? 1 : n * fact(n - 1); }\n<T> T same(T t) { return t; }"));
    }

    @Test
    void aMethodNamedRunIsTheLearners() {
        assertEquals("mine\n", notebook.run("void run() { System.out.println(\"mine\"); }\nrun();"));
    }

    @Test
    void aTypeNamedCellIsTheLearners() {
        assertEquals("5\n", notebook.run("class Cell { int x = 5; }\nSystem.out.println(new Cell().x);"));
        assertEquals("5\n", notebook.run("int f() { return new Cell().x; } System.out.println(f());"));
    }

    @Test
    void aLastCallWithoutSemicolonIsDoneButNotPrinted() {
        assertEquals("hello\n", notebook.run("System.out.println(\"hello\")"));
        assertEquals("", notebook.run("int x = 1;\nx++ // done"));
    }

    @Test
    void aLastValueWithoutSemicolonIsPrinted() {
        assertEquals("3\n", notebook.run("1 + 2"));
        assertEquals("[1, 2]\n", notebook.run("var list = List.of(1, 2);\nlist // the list"));
        assertEquals("null\n", notebook.run("String s = null;\n\n/* s: */ s\n"));
        assertEquals("c\n", notebook.run("'c'"));
        assertEquals("yes\n", notebook.run("int x = 1;\nx > 0 ? \"yes\" : \"no\""));
    }

    @Test
    void checkedExceptionsMayBeThrown() {
        CellBody body = notebook.accept("throw new java.io.IOException(\"disk\");").body();
        assertEquals("disk", assertThrows(IOException.class, body::run).getMessage());
    }

    @Test
    void lambdasTextBlocksLabelsAndVar() {
        assertEquals("a{b\n3\n", notebook.run("var text = \"\"\"\n    a{b\"\"\";\nSystem.out.println(text);\n"
                + "IntUnaryOperator next = n -> n + 1;\nint i = 0;\nouter:\nwhile (true) { i = next.applyAsInt(i); "
                + "if (i == 3) break outer; }\nSystem.out.println(i);"));
    }

    @Test
    void returnEndsTheCell() {
        assertEquals("a\n", notebook.run("System.out.println(\"a\");\nif (true) return;\nSystem.out.println(\"b\");"));
    }

    @Test
    void assertIsChecked() {
        CellBody body = notebook.accept("int one = 1; assert one == 2 : \"no\";").body();
        assertEquals("no", assertThrows(AssertionError.class, body::run).getMessage());
    }

    @Test
    void stackTracesNameTheCellsLines() {
        notebook.accept("\n\npublic class Bad {\n"
                + "    int x = 1; public static void fail() {\n        throw new Error();\n    }\n}");
        CellBody body = notebook.accept("int a = 1;\n\nvoid twice() {\n    Bad.fail();\n}\n\ntwice();").body();
        StackTraceElement[] trace = assertThrows(Error.class, body::run).getStackTrace();
        assertEquals("Bad.fail(cell:6)", trace[0].toString().replaceFirst(".*/", ""));
        assertEquals("CellMethods.twice(cell:5)", trace[1].toString().replaceFirst(".*/", ""));
        assertEquals("Cell.run(cell:8)", trace[2].toString().replaceFirst(".*/", ""));
    }

    @Test
    void bodiesOfOneGenerationAreNumbered() {
        notebook.accept("int x = 1;");
        CellBody second = notebook.accept("throw new Error();").body();
        StackTraceElement top = assertThrows(Error.class, second::run).getStackTrace()[0];
        assertEquals("Cell2.run(cell:2)", top.toString().replaceFirst(".*/", ""));
    }

    @Test
    void aBodyCanRunTwice() throws Throwable {
        CellBody body = notebook.accept("int x = 1; x++;").body();
        assertNotNull(body);
        body.run();
        body.run();
    }
}
