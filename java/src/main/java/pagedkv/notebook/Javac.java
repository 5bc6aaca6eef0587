package pagedkv.notebook;

import com.sun.source.util.JavacTask;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.lang.model.element.Element;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.PackageElement;
import javax.tools.DiagnosticListener;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.StandardLocation;
import javax.tools.ToolProvider;

/** The JDK's compiler with our options. One file manager serves all cells, so the class path is read once. */
final class Javac {
    private static final int FIRST_JDK_WITH_THIS_ESCAPE = 21;

    private final JavaCompiler compiler;
    private final StandardJavaFileManager files;
    private final List<String> options;

    Javac(String classPath) {
        compiler = ToolProvider.getSystemJavaCompiler();
        if (compiler == null) {
            throw new IllegalStateException("this Java has no compiler: a JDK is needed, not a JRE");
        }
        files = compiler.getStandardFileManager(null, null, null);
        files.handleOption("-classpath", List.of(classPath).iterator());
        // The empty source path keeps javac from compiling .java files that it meets on the class path.
        files.handleOption("-sourcepath", List.of("").iterator());
        options = List.of("-proc:none", "-g", "-Xlint:all," + unwantedLint());
    }

    private static String unwantedLint() {
        boolean known = Runtime.version().feature() >= FIRST_JDK_WITH_THIS_ESCAPE;
        return known ? "-serial,-this-escape" : "-serial";
    }

    JavacTask parseTask(JavaFileObject file, DiagnosticListener<JavaFileObject> listener) {
        return task(files, listener, List.of("-proc:none"), List.of(file));
    }

    JavacTask compileTask(MemoryFiles memory, DiagnosticListener<JavaFileObject> listener, List<CellUnit> units) {
        return task(memory, listener, options, units);
    }

    MemoryFiles memoryFiles(Map<String, byte[]> known) {
        return new MemoryFiles(files, known);
    }

    boolean classPathHas(String packageName) {
        try {
            return files.list(StandardLocation.CLASS_PATH, packageName, EnumSet.of(JavaFileObject.Kind.CLASS), false)
                    .iterator().hasNext();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Simple names of the public top-level types of some packages; a package that does not exist has none. */
    Set<String> publicTypesIn(List<String> packages) {
        JavacTask task = task(files, diagnostic -> { }, options, List.of());
        Set<String> names = new HashSet<>();
        for (String each : packages) {
            PackageElement found = task.getElements().getPackageElement(each);
            if (found != null) {
                found.getEnclosedElements().stream().filter(Javac::isPublic)
                        .forEach(type -> names.add(type.getSimpleName().toString()));
            }
        }
        return names;
    }

    private static boolean isPublic(Element element) {
        return element.getModifiers().contains(Modifier.PUBLIC);
    }

    /** The null writer is where javac would print a crash of its own; the exception reaches us anyway. */
    private JavacTask task(JavaFileManager manager, DiagnosticListener<JavaFileObject> listener, List<String> arguments,
                           List<? extends JavaFileObject> sources) {
        return (JavacTask) compiler.getTask(Writer.nullWriter(), manager, listener, arguments, null, sources);
    }
}
