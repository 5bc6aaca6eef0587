package pagedkv.netty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.util.ResourceLeakDetector;
import org.junit.jupiter.api.Test;

class LeakReportsTest {

    @Test
    void aForgottenBufferIsReported() throws InterruptedException {
        var level = ResourceLeakDetector.getLevel();
        String report = LeakReports.of(() -> {
            ByteBuf lost = PooledByteBufAllocator.DEFAULT.directBuffer(64);
            lost.writeInt(1);
        });
        assertTrue(report.startsWith("LEAK: ByteBuf.release() was not called"), report);
        assertEquals(level, ResourceLeakDetector.getLevel());
    }

    @Test
    void aReleasedBufferIsNot() throws InterruptedException {
        assertEquals("no report", LeakReports.of(() -> PooledByteBufAllocator.DEFAULT.directBuffer(64).release()));
    }
}
