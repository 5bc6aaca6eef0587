package pagedkv.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.sun.management.HotSpotDiagnosticMXBean;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.function.Supplier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The rules against what this JVM says that it allocated. */
class ObjectSizesTest {

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final int OBJECTS = 1_000;

    private final Object[] kept = new Object[OBJECTS];

    private static final class IntAndReference {
        private final int number = 1;
        private final Object reference = null;
    }

    @BeforeEach
    void usualHeaders() {
        var diagnostics = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
        for (String flag : new String[] {"UseCompressedOops", "UseCompressedClassPointers"}) {
            assumeTrue(Boolean.parseBoolean(diagnostics.getVMOption(flag).getValue()), flag + " is off in this JVM");
        }
    }

    @Test
    void arraysAndObjectsTakeWhatTheRulesSay() {
        assertEquals(measured(() -> new int[5]), ObjectSizes.intArray(5));
        assertEquals(measured(() -> new int[6]), ObjectSizes.intArray(6));
        assertEquals(measured(() -> new long[16]), ObjectSizes.longArray(16));
        assertEquals(measured(() -> new Object[17]), ObjectSizes.referenceArray(17));
        assertEquals(measured(IntAndReference::new), ObjectSizes.object(Integer.BYTES + ObjectSizes.REFERENCE_BYTES));
    }

    @Test
    void anArrayOf5IntsTakes40Bytes() {
        assertEquals(40, ObjectSizes.intArray(5));
        assertEquals(24, ObjectSizes.object(8));
    }

    /** Bytes per object; a few bytes that something else allocates meanwhile disappear in the division. */
    private long measured(Supplier<Object> maker) {
        fill(maker);
        long before = THREADS.getCurrentThreadAllocatedBytes();
        fill(maker);
        return (THREADS.getCurrentThreadAllocatedBytes() - before) / OBJECTS;
    }

    private void fill(Supplier<Object> maker) {
        for (int i = 0; i < OBJECTS; i++) {
            kept[i] = maker.get();
        }
    }
}
