package pagedkv.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class InterningTest {

    @Test
    void n17InternComparesContentsAndATrustedHashDoesNot() { // N17
        assertEquals(new Interning.Result(2112, 2112, true, true, false, 1, 0), Interning.run());
    }

    @Test
    void n17AnInternedStringGoesWhenNobodyRefersToIt() { // N17
        assertTrue(Interning.isCollected(false));
        assertFalse(Interning.isCollected(true));
    }
}
