package pagedkv.notebook;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Loads the classes of one generation from memory.
 *
 * <p>They come before classes of the same name that the parent might have: what was typed counts. Bodies of later cells
 * are added to the same loader, because only there may they use what the types keep package-private. Assertions are on:
 * a learner who types {@code assert} wants it checked.
 */
final class GenerationLoader extends ClassLoader {
    private final Map<String, byte[]> classFiles = new ConcurrentHashMap<>();

    GenerationLoader(ClassLoader parent) {
        super(parent);
        setDefaultAssertionStatus(true);
    }

    void add(Map<String, byte[]> more) {
        classFiles.putAll(more);
    }

    Set<String> classNames() {
        return Set.copyOf(classFiles.keySet());
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        synchronized (getClassLoadingLock(name)) {
            Class<?> loaded = findLoadedClass(name);
            if (loaded != null) {
                return loaded;
            }
            byte[] ours = classFiles.get(name);
            return ours == null ? super.loadClass(name, resolve) : defineClass(name, ours, 0, ours.length);
        }
    }
}
