package pagedkv.jvm;

/** The garbage collector that this JVM runs with. */
public enum Collector {
    SERIAL("Serial", "UseSerialGC"),
    PARALLEL("Parallel", "UseParallelGC"),
    G1("G1", "UseG1GC"),
    Z("ZGC", "UseZGC"),
    SHENANDOAH("Shenandoah", "UseShenandoahGC"),
    OTHER("another collector", "");

    private final String title;
    private final String flag;

    Collector(String title, String flag) {
        this.title = title;
        this.flag = flag;
    }

    public static Collector running() {
        for (Collector each : values()) {
            if (each != OTHER && Diagnostics.isOn(each.flag)) {
                return each;
            }
        }
        return OTHER;
    }

    /** @throws IllegalStateException if this JVM does not run G1 */
    static void requireG1() {
        var running = running();
        if (running != G1) {
            throw new IllegalStateException("this JVM runs " + running.title + ", whose heap has no G1 regions: "
                    + "start the JVM with -XX:+UseG1GC");
        }
    }

    @Override
    public String toString() {
        return title;
    }
}
