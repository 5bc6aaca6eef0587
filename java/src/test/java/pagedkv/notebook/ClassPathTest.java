package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Cells compiled against a class path, here a folder with a {@code pagedkv.pool} package and a class in no package. */
class ClassPathTest {
    @TempDir
    Path folder;

    @BeforeEach
    void compileClassPath() throws IOException {
        javac("pagedkv/pool/Pond.java", "package pagedkv.pool; public class Pond { public int depth() { return 3; } }");
        javac("Loose.java", "public class Loose { public int x = 1; }");
    }

    private void javac(String name, String source) throws IOException {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, source);
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, file.toString()));
        Files.writeString(file, "not Java: a source on the class path must not be read");
    }

    private CellCompiler compiler(ClassLoader parent) {
        return new CellCompiler(folder.toString(), parent);
    }

    private URLClassLoader parent() throws IOException {
        return new URLClassLoader(new URL[] {folder.toUri().toURL()});
    }

    private static void runs(CellCompiler compiler, String source) throws Throwable {
        CompiledCell cell = compiler.compile(source, 2);
        assertTrue(cell.ok(), () -> cell.problems().toString());
        if (cell.body() != null) {
            cell.body().run();
        }
    }

    @Test
    void theProjectsPoolPackageNeedsNoImport() throws Throwable {
        try (URLClassLoader parent = parent()) {
            runs(compiler(parent), "assert new Pond().depth() == 3;");
        }
    }

    @Test
    void aTypedClassWinsOverOneOnTheClassPath() throws Throwable {
        try (URLClassLoader parent = parent()) {
            CellCompiler compiler = compiler(parent);
            runs(compiler, "assert new Loose().x == 1;");
            runs(compiler, "class Loose { int x = 2; }");
            runs(compiler, "assert new Loose().x == 2;");
        }
    }

    @Test
    void aTypeThatCannotBeLoadedIsRefusedAndChangesNothing() {
        CellCompiler compiler = compiler(ClassLoader.getPlatformClassLoader());
        CompiledCell cell = compiler.compile("class Deep extends Pond { }", 2);
        assertFalse(cell.ok());
        assertNull(cell.body());
        assertTrue(cell.problems().get(0).message().startsWith("compiled, but could not be loaded: "));
        assertTrue(compiler.compile("int x = 1;", 2).ok());
    }
}
