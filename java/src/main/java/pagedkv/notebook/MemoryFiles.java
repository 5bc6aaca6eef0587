package pagedkv.notebook;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardLocation;

/** javac's files for one compilation: class files go to memory, and classes of the default package come from there. */
final class MemoryFiles extends ForwardingJavaFileManager<JavaFileManager> {
    private final Map<String, byte[]> known;
    private final Map<String, byte[]> written = new TreeMap<>();

    MemoryFiles(JavaFileManager files, Map<String, byte[]> known) {
        super(files);
        this.known = known;
    }

    /** Binary class name → class file, for every class compiled. */
    Map<String, byte[]> written() {
        return written;
    }

    @Override
    public JavaFileObject getJavaFileForOutput(Location location, String className, JavaFileObject.Kind kind,
                                               FileObject sibling) {
        return new ClassFile(className, new byte[0]);
    }

    @Override
    public Iterable<JavaFileObject> list(Location location, String packageName, Set<JavaFileObject.Kind> kinds,
                                         boolean recurse) throws IOException {
        Iterable<JavaFileObject> onDisk = super.list(location, packageName, kinds, recurse);
        boolean ours = location == StandardLocation.CLASS_PATH && packageName.isEmpty()
                && kinds.contains(JavaFileObject.Kind.CLASS);
        if (!ours) {
            return onDisk;
        }
        List<JavaFileObject> all = new ArrayList<>();
        known.forEach((name, bytes) -> all.add(new ClassFile(name, bytes)));
        onDisk.forEach(all::add);
        return all;
    }

    @Override
    public String inferBinaryName(Location location, JavaFileObject file) {
        return file instanceof ClassFile ours ? ours.className : super.inferBinaryName(location, file);
    }

    private final class ClassFile extends SimpleJavaFileObject {
        private final String className;
        private final byte[] bytes;

        ClassFile(String className, byte[] bytes) {
            super(URI.create("cell:///" + className.replace('.', '/') + ".class"), Kind.CLASS);
            this.className = className;
            this.bytes = bytes;
        }

        @Override
        public InputStream openInputStream() {
            return new ByteArrayInputStream(bytes);
        }

        @Override
        public OutputStream openOutputStream() {
            return new ByteArrayOutputStream() {
                @Override
                public void close() {
                    written.put(className, toByteArray());
                }
            };
        }
    }
}
