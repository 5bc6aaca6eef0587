package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** A notebook for the tests: cells are compiled one after the other and their bodies run. */
final class Notebook {
    final CellCompiler compiler = new CellCompiler("", Notebook.class.getClassLoader());

    CompiledCell compile(String source) {
        return compiler.compile(source, 2);
    }

    CompiledCell accept(String source) {
        CompiledCell cell = compile(source);
        assertTrue(cell.ok(), () -> "should compile: " + cell.problems());
        return cell;
    }

    CompiledCell refuse(String source) {
        CompiledCell cell = compile(source);
        assertFalse(cell.ok(), "should be refused");
        assertNull(cell.body());
        return cell;
    }

    CellProblem firstError(String source) {
        return refuse(source).problems().get(0);
    }

    /** What the statements of a cell print. */
    String run(String source) {
        CellBody body = accept(source).body();
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            body.run();
        } catch (Throwable e) {
            throw new AssertionError("the cell threw", e);
        } finally {
            System.setOut(before);
        }
        return printed.toString(StandardCharsets.UTF_8).replace(System.lineSeparator(), "\n");
    }
}
