package pagedkv.netty.tiers;

import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URISyntaxException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Netty 4.1.48 itself, beside the newer Netty of the class path: a class loader of its own reads its two jars.
 *
 * <p>Only public methods of public types are called, by their names, since none of these types can be named here.
 * Buffers are on the heap: then {@code array()} says in which chunk a buffer lies and {@code arrayOffset()} where.
 *
 * <p>The build puts the jars into {@code target/netty-4.1.48/}; the system property {@code pagedkv.netty48} names
 * another folder.
 */
public final class RealNetty {

    /** The system property that names the folder of the jars. */
    public static final String FOLDER_PROPERTY = "pagedkv.netty48";

    private static final String[] JARS = {"netty-buffer-4.1.48.Final.jar", "netty-common-4.1.48.Final.jar"};
    private static final Map<SizeClass, String> NAMES = Map.of(SizeClass.TINY, "Tiny", SizeClass.SMALL, "Small",
            SizeClass.NORMAL, "Normal", SizeClass.HUGE, "Huge");

    private final Object allocator;
    private final Method heapBuffer;

    /** A new allocator of Netty's own with these settings. With thread caches, every thread has one. */
    public RealNetty(Settings settings) {
        var cache = settings.cache();
        if (settings.search() != null || cache != null && (cache.trimInterval() != CacheSettings.DEFAULT.trimInterval()
                || cache.maxCachedBytes() != CacheSettings.DEFAULT.maxCachedBytes())) {
            throw new IllegalArgumentException("real Netty has its own search, trimInterval and maxCachedBytes");
        }
        boolean cached = cache != null;
        try {
            heapBuffer = type("buffer.ByteBufAllocator").getMethod("heapBuffer", int.class);
            allocator = type("buffer.PooledByteBufAllocator")
                    .getConstructor(boolean.class, int.class, int.class, int.class, int.class, int.class, int.class,
                            int.class, boolean.class)
                    .newInstance(false, settings.numArenas(), 0, settings.pageBytes(), settings.maxOrder(),
                            cached ? cache.tinyEntries() : 0, cached ? cache.smallEntries() : 0,
                            cached ? cache.normalEntries() : 0, cached);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException("this is not Netty 4.1.48", problem);
        }
    }

    /** Whether the jars are where they are looked for. */
    public static boolean isThere() {
        return List.of(JARS).stream().allMatch(jar -> Files.isRegularFile(folder().resolve(jar)));
    }

    /**
     * What {@code PooledByteBufAllocator}'s static method without arguments answers, such as {@code defaultMaxOrder}.
     */
    static Object setting(String method) {
        try {
            return type("buffer.PooledByteBufAllocator").getMethod(method).invoke(null);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException("this is not Netty 4.1.48", problem);
        }
    }

    /** The class of {@code ByteBufAllocator.DEFAULT}, without its package. */
    static String defaultAllocator() {
        try {
            return type("buffer.ByteBufAllocator").getField("DEFAULT").get(null).getClass().getSimpleName();
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException("this is not Netty 4.1.48", problem);
        }
    }

    /** A new buffer of this size, for the calling thread. */
    public Buffer allocate(int sizeBytes) {
        return new Buffer(call(heapBuffer, allocator, sizeBytes));
    }

    /** The metrics of one arena, as Netty itself gives them. */
    public ArenaMetrics metrics(int arena) {
        var real = ((List<?>) call("buffer.PooledByteBufAllocatorMetric", "heapArenas",
                call("buffer.PooledByteBufAllocator", "metric", allocator))).get(arena);
        var usage = new LinkedHashMap<String, List<Integer>>();
        var names = List.of("qInit", "q000", "q025", "q050", "q075", "q100").iterator();
        int numChunks = 0;
        for (Object list : (List<?>) arenaMetric("chunkLists", real)) {
            var percents = new ArrayList<Integer>();
            for (Object chunk : (Iterable<?>) list) {
                percents.add((Integer) call("buffer.PoolChunkMetric", "usage", chunk));
            }
            numChunks += percents.size();
            usage.put(names.next(), List.copyOf(percents));
        }
        var allocations = new EnumMap<SizeClass, Long>(SizeClass.class);
        var deallocations = new EnumMap<SizeClass, Long>(SizeClass.class);
        for (SizeClass sizeClass : SizeClass.values()) {
            allocations.put(sizeClass, (Long) arenaMetric("num" + NAMES.get(sizeClass) + "Allocations", real));
            deallocations.put(sizeClass, (Long) arenaMetric("num" + NAMES.get(sizeClass) + "Deallocations", real));
        }
        return new ArenaMetrics((Integer) arenaMetric("numThreadCaches", real), numChunks, usage, allocations,
                deallocations, (Long) arenaMetric("numActiveBytes", real));
    }

    private static Object arenaMetric(String method, Object arena) {
        return call("buffer.PoolArenaMetric", method, arena);
    }

    /** One buffer of Netty's. */
    public static final class Buffer {

        private final Object buffer;

        private Buffer(Object buffer) {
            this.buffer = buffer;
        }

        /** How far it could grow where it is: what its size was rounded up to. */
        public int roundedBytes() {
            return (Integer) call("buffer.ByteBuf", "maxFastWritableBytes", buffer);
        }

        /** The memory of its chunk. */
        public byte[] chunk() {
            return (byte[]) call("buffer.ByteBuf", "array", buffer);
        }

        /** Where it begins in its chunk. */
        public int offset() {
            return (Integer) call("buffer.ByteBuf", "arrayOffset", buffer);
        }

        public void grow(int sizeBytes) {
            call(Types.CAPACITY, buffer, sizeBytes);
        }

        public void release() {
            call("buffer.ByteBuf", "release", buffer);
        }
    }

    private static Object call(String type, String method, Object target) {
        return call(Types.METHODS.computeIfAbsent(type + "." + method, name -> method(type, method)), target);
    }

    private static Object call(Method method, Object target, Object... arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException("Netty 4.1.48's " + method.getName() + " failed", problem);
        }
    }

    private static Method method(String type, String name) {
        try {
            return type(type).getMethod(name);
        } catch (NoSuchMethodException problem) {
            throw new IllegalStateException("this is not Netty 4.1.48", problem);
        }
    }

    private static Class<?> type(String name) {
        return Types.load(name);
    }

    private static Path folder() {
        String named = System.getProperty(FOLDER_PROPERTY);
        if (named != null) {
            return Path.of(named);
        }
        try {
            // target/pagedkv.jar or target/classes
            var code = Path.of(RealNetty.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            return code.resolveSibling("netty-4.1.48");
        } catch (URISyntaxException problem) {
            throw new IllegalStateException("cannot tell where this class was loaded from", problem);
        }
    }

    /** Loaded with the first use, once for the whole JVM. */
    private static final class Types {

        private static final URLClassLoader LOADER = new URLClassLoader(jars(), ClassLoader.getPlatformClassLoader());
        private static final Map<String, Method> METHODS = new ConcurrentHashMap<>();
        private static final Method CAPACITY;

        static {
            try {
                CAPACITY = load("buffer.ByteBuf").getMethod("capacity", int.class);
                // its reports of leaks would come through this JVM's log, and its wrappers around buffers in between
                var levels = load("util.ResourceLeakDetector$Level");
                load("util.ResourceLeakDetector").getMethod("setLevel", levels)
                        .invoke(null, levels.getField("DISABLED").get(null));
            } catch (ReflectiveOperationException problem) {
                throw new IllegalStateException("this is not Netty 4.1.48", problem);
            }
        }

        private static Class<?> load(String name) {
            try {
                return Class.forName("io.netty." + name, true, LOADER);
            } catch (ClassNotFoundException problem) {
                throw new IllegalStateException("there is no io.netty." + name + " in " + folder()
                        + ": build with mvn package, or set -D" + FOLDER_PROPERTY, problem);
            }
        }

        private static URL[] jars() {
            if (!isThere()) {
                throw new IllegalStateException("the jars of Netty 4.1.48 are not in " + folder()
                        + ": build with mvn package, or set -D" + FOLDER_PROPERTY);
            }
            try {
                return new URL[] {folder().resolve(JARS[0]).toUri().toURL(), folder().resolve(JARS[1]).toUri().toURL()};
            } catch (MalformedURLException problem) {
                throw new IllegalStateException(problem);
            }
        }
    }
}
