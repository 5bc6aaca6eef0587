package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class VisibilityNotesTest {
    private final Notebook notebook = new Notebook();

    private String notes(String source) {
        return String.join("\n", notebook.accept(source).notes());
    }

    @Test
    void membersWithoutAccessModifierAreNamedOncePerClass() {
        assertEquals("Counter: not public, so Python cannot see bump, total",
                notes("public class Counter { public Counter() { } void bump() { } void bump(int n) { } static int total; "
                        + "private int a; protected int b; public int c; }"));
    }

    @Test
    void aConstructorThatIsNotPublicIsNamed() {
        assertEquals("A: not public, so Python cannot see constructor", notes("class A { }"));
        assertEquals("P: not public, so Python cannot see constructor", notes("record P(int x) { }"));
        assertEquals("B: not public, so Python cannot see constructor",
                notes("public class B { B() { } }"));
    }

    @Test
    void publicTypesInterfacesAndEnumsNeedNoNote() {
        assertEquals("", notes("public class A { private int x; public int x() { return x; } }\npublic record P(int x) { }\n"
                + "interface I { int f(); int N = 1; }\nenum E { X; private int y; public int z() { return y; } }\n"
                + "abstract class Base { public abstract int f(); }"));
    }

    @Test
    void onlyTheTypesOfThisCellAreNoted() {
        notebook.accept("class A { int x; }");
        assertEquals("", notes("new A().x = 1;"));
        assertEquals("", notes("public class B { }"));
    }
}
