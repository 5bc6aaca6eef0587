package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SizeClassesTest {

    @ParameterizedTest
    @CsvSource({"0, 0", "1, 16", "15, 16", "16, 16", "17, 32", "480, 480", "481, 496", "496, 496", "497, 512",
        "511, 512", "512, 512", "513, 1024", "1024, 1024", "1025, 2048", "4096, 4096", "4097, 8192", "8192, 8192",
        "8193, 16384", "8388608, 8388608", "8388609, 16777216", "16777215, 16777216",
        "16777216, 16777216", "16777217, 16777217", "2147483647, 2147483647"})
    void n3RoundsUp(int request, int normalized) {
        assertEquals(normalized, SizeClasses.normalizeCapacity(request));
    }

    @ParameterizedTest
    @CsvSource({"16, TINY", "496, TINY", "512, SMALL", "4096, SMALL", "8192, NORMAL", "16777216, NORMAL",
        "16777217, HUGE"})
    void n3ClassOfARoundedSize(int normalized, SizeClass sizeClass) {
        assertEquals(sizeClass, SizeClasses.of(normalized, 8192, SizeClasses.CHUNK_BYTES));
    }

    @Test
    void aSmallerChunkMovesTheBorderOfHuge() {
        assertEquals(131_072, SizeClasses.normalizeCapacity(70_000, 131_072));
        assertEquals(131_073, SizeClasses.normalizeCapacity(131_073, 131_072));
        assertThrows(IllegalArgumentException.class, () -> SizeClasses.normalizeCapacity(-1));
    }
}
