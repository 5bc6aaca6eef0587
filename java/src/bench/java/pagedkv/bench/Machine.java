package pagedkv.bench;

import io.netty.buffer.PooledByteBufAllocator;
import io.netty.util.Version;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a measured number depends on. */
final class Machine {

    private Machine() {
    }

    static Map<String, Object> description() {
        var machine = new LinkedHashMap<String, Object>();
        machine.put("cpu", cpu());
        machine.put("cores", Runtime.getRuntime().availableProcessors());
        machine.put("os", System.getProperty("os.name") + " " + System.getProperty("os.arch"));
        machine.put("jdk", System.getProperty("java.vm.name") + " " + Runtime.version());
        machine.put("netty", nettyVersion());
        machine.put("load_before", loadAverage());
        return machine;
    }

    private static String cpu() {
        try (var lines = Files.lines(Path.of("/proc/cpuinfo"))) {
            return lines.filter(line -> line.startsWith("model name")).findFirst()
                    .map(line -> line.substring(line.indexOf(':') + 1).trim()).orElse(System.getProperty("os.arch"));
        } catch (IOException notLinux) {
            return System.getProperty("os.arch");
        }
    }

    /** Netty may name its version in the jar only. */
    private static String nettyVersion() {
        var version = Version.identify().get("netty-buffer");
        return version == null ? PooledByteBufAllocator.class.getPackage().getImplementationVersion()
                : version.artifactVersion();
    }

    /** Of the last minute: a busy machine measures its other work too. */
    private static double loadAverage() {
        return ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
    }
}
