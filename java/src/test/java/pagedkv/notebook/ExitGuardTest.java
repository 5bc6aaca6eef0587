package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class ExitGuardTest {
    private final Notebook notebook = new Notebook();

    private void assertRefused(int line, String method, String source) {
        CellProblem problem = notebook.firstError(source);
        assertEquals(method + " would end the notebook's kernel: throw an exception instead", problem.message());
        assertEquals(line, problem.line());
    }

    @Test
    void plainCallsAreRefused() {
        assertRefused(3, "System.exit", "int x = 1;\nSystem.exit(0);");
        assertRefused(2, "Runtime.halt", "Runtime.getRuntime().halt(1);");
        assertRefused(3, "Runtime.exit", "Runtime r = Runtime.getRuntime();\nr.exit(2);");
        assertRefused(3, "System.exit", "\njava.lang.System . exit (0)");
    }

    @Test
    void callsInTypesMethodsAndLambdasAreRefused() {
        assertRefused(3, "System.exit", "class A {\n    void f() { System.exit(1); }\n}");
        assertRefused(2, "System.exit", "void f() { System.exit(1); }");
        assertRefused(2, "System.exit", "Runnable r = () -> System.exit(1);");
    }

    @Test
    void staticImportsAreRefused() {
        assertRefused(3, "System.exit", "import static java.lang.System.exit;\nexit(0);");
        assertRefused(3, "System.exit", "import static java.lang.System.*;\nexit(0);");
    }

    @Test
    void methodReferencesAreRefused() {
        assertRefused(2, "System.exit", "IntConsumer c = System::exit;");
        assertRefused(2, "Runtime.halt", "IntConsumer c = Runtime.getRuntime()::halt;");
    }

    @Test
    void textCommentsAndOnesOwnExitAreAccepted() {
        assertEquals("System.exit(0)\nmine\n", notebook.run("// System.exit(0);\nclass System2 { static void exit(int x) { } }\n"
                + "System.out.println(\"System.exit(0)\");\nvoid exit(int x) { System.out.println(\"mine\"); }\n"
                + "exit(0); System2.exit(1);"));
    }
}
