package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Which types are alive after which cell. */
class GenerationTest {
    private final Notebook notebook = new Notebook();

    @Test
    void typesAreGivenByNameInTheOrderTyped() {
        notebook.accept("public class B { }");
        CompiledCell cell = notebook.accept("record A<T>(T x) { }\nenum C { X }");
        assertEquals("[B, A, C]", cell.types().keySet().toString());
        assertEquals("[A, C]", cell.declared().toString());
        assertEquals("A", cell.types().get("A").getName());
        assertSame(cell.types().get("A").getClassLoader(), cell.types().get("B").getClassLoader());
    }

    @Test
    void aRedefinitionTakesItsDependentsAlong() {
        notebook.accept("class Tariff { static int cents() { return 1; } }");
        notebook.accept("class Shop { static int price() { return 2 * Tariff.cents(); } }");
        assertEquals("2\n", notebook.run("System.out.println(Shop.price());"));
        notebook.accept("class Tariff { static int cents() { return 50; } }");
        assertEquals("100\n", notebook.run("System.out.println(Shop.price());"));
    }

    @Test
    void oneTypeOfACellCanBeRedefinedAlone() {
        notebook.accept("class A { int x() { return 1; } }\nclass B { int y = new A().x(); }");
        CompiledCell cell = notebook.accept("class A { int x() { return 2; } }");
        assertEquals("[B, A]", cell.types().keySet().toString());
        assertEquals("2\n", notebook.run("System.out.println(new B().y);"));
    }

    @Test
    void aFailedCellChangesNothing() {
        Class<?> before = notebook.accept("public class A { }").types().get("A");
        for (String bad : new String[] {"class A { int x = }", "class A { int x = \"\"; }",
            "class A { void f() { System.exit(0); } }"}) {
            CompiledCell cell = notebook.refuse(bad);
            assertSame(before, cell.types().get("A"));
            assertTrue(cell.declared().isEmpty());
        }
        notebook.run("new A();");
    }

    @Test
    void statementsAloneKeepTheClassesThatPythonHolds() {
        Class<?> before = notebook.accept("public class A { }").types().get("A");
        assertSame(before, notebook.accept("new A();").types().get("A"));
        assertNotSame(before, notebook.accept("class B { }").types().get("A"));
    }

    @Test
    void aRedefinitionThatBreaksAnEarlierTypeIsRefusedAndNamesIt() {
        notebook.accept("class Pool { int take() { return 1; } }");
        notebook.accept("class User {\n    int one = new Pool().take();\n}");
        CellProblem problem = notebook.firstError("int x = 1;\nclass Pool { }");
        assertEquals("error in line 3: User, typed in an earlier cell, would no longer compile with Pool: cannot find symbol\n"
                + "  symbol:   method take()\n  location: class Pool\n"
                + "  in its line 3: int one = new Pool().take();\n    class Pool { }\n    ^", problem.toString());
        assertEquals("1\n", notebook.run("System.out.println(new User().one);"));
    }

    @Test
    void errorsOfTheCellItselfHideWhatTheyDoToEarlierTypes() {
        notebook.accept("class Pool { int take() { return 1; } }\nclass User { int one = new Pool().take(); }");
        CompiledCell cell = notebook.refuse("class Pool { int x = typo; void take(int y) { } int z; int z; }");
        assertTrue(cell.problems().stream().noneMatch(problem -> problem.message().contains("User")));
    }

    @Test
    void importsStayWithTheTypesOfTheirCell() {
        notebook.accept("import java.util.concurrent.atomic.*;\nclass Box { final AtomicInteger n = new AtomicInteger(3); }");
        notebook.accept("class Other { }");
        assertEquals("3\n", notebook.run("System.out.println(new Box().n);"));
        notebook.refuse("new AtomicInteger();");
    }

    @Test
    void aSealedHierarchyOfOneCellNeedsNoPermits() {
        notebook.accept("sealed interface Shape { }\nrecord Circle(double r) implements Shape { }\n"
                + "record Square(double a) implements Shape { }");
        assertEquals("true\n", notebook.run("Shape s = new Circle(1); System.out.println(s instanceof Circle);"));
    }

    @Test
    void aPartOfASealedHierarchyCannotBeRedefinedAloneButTheWholeCan() {
        String shape = "sealed interface Shape { }\n";
        notebook.accept(shape + "record Circle(double r) implements Shape { }");
        notebook.refuse("record Circle(int r) implements Shape { }");
        notebook.accept(shape + "record Circle(int r) implements Shape { }");
    }

    @Test
    void severalPublicTypesMayShareACell() {
        assertTrue(notebook.accept("public class A { public A() { } }\npublic interface B { }\npublic record C(A a) { }")
                .problems().isEmpty());
    }

    @Test
    void nestedGenericAnnotatedTypes() {
        notebook.accept("import java.lang.annotation.*;\n@Retention(RetentionPolicy.RUNTIME) @interface Mark { String value(); }\n"
                + "@Mark(\"}{\") public class Tree<K extends Comparable<K>, V> {\n    record Node<K, V>(K key, V value) { }\n"
                + "    enum Side { LEFT { int d() { return -1; } }, RIGHT { int d() { return 1; } }; abstract int d(); }\n"
                + "    Map<K, List<? super V>> map = new TreeMap<>();\n}");
        assertEquals("-1 }{\n", notebook.run("System.out.println(Tree.Side.LEFT.d() + \" \"\n"
                + "+ Tree.class.getAnnotation(Mark.class).value());"));
    }

    @Test
    void theSameTypeTwiceInACellIsAnError() {
        assertEquals("duplicate class: A", notebook.firstError("class A { }\nclass A { }").message());
    }
}
