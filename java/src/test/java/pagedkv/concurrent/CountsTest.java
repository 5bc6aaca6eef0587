package pagedkv.concurrent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** The steps that the lock-free pools are made of, and that no test of a whole pool can stop in between. */
class CountsTest {

    private final Counts counts = new Counts(2);

    @Test
    void aReservedReferenceCannotBeReleasedByAnotherCall() {
        counts.claim(0);
        counts.retain(0);
        assertTrue(counts.reserve(0));
        assertEquals(Counts.Drop.STILL_HELD, counts.drop(0));
        assertEquals(Counts.Drop.REFUSED, counts.drop(0));
        assertFalse(counts.reserve(0));
        assertTrue(counts.finish(0));
        assertEquals(0, counts.count(0));
    }

    @Test
    void aReservationCanBeTakenBack() {
        counts.claim(0);
        counts.claim(1);
        counts.retain(1);
        assertTrue(counts.reserve(0)); // the last reference
        assertTrue(counts.reserve(1)); // one of two
        counts.undo(0);
        counts.undo(1);
        assertEquals(1, counts.count(0));
        assertEquals(2, counts.count(1));
        assertEquals(Counts.Drop.FREE, counts.drop(0));
        assertEquals(Counts.Drop.STILL_HELD, counts.drop(1));
    }

    @Test
    void aReservedLastReferenceCannotBeRetained() {
        counts.claim(0);
        counts.reserve(0);
        assertFalse(counts.retain(0));
        assertTrue(counts.finish(0));
    }

    @Test
    void aBlockInACacheGoesToWhoeverComesFirst() {
        counts.deposit(0);
        assertTrue(counts.claimCached(0));
        assertFalse(counts.claimCached(0));
        assertFalse(counts.withdraw(0));
        assertEquals(1, counts.count(0));
    }

    @Test
    void aBlockInAHandIsNobodyElses() {
        counts.deposit(0);
        assertTrue(counts.withdraw(0));
        assertFalse(counts.withdraw(0));
        assertFalse(counts.claimCached(0));
        counts.claim(0);
        assertThrows(IllegalStateException.class, () -> counts.claim(0));
    }

    @Test
    void moreReferencesThanCanBeCountedAreRefused() {
        counts.claim(0);
        for (int i = 1; i < Counts.MOST_REFERENCES; i++) {
            counts.retain(0);
        }
        assertThrows(IllegalStateException.class, () -> counts.retain(0));
        assertEquals(Counts.MOST_REFERENCES, counts.count(0));
        for (int i = 0; i < Counts.MOST_REFERENCES; i++) {
            assertTrue(counts.reserve(0));
        }
        assertFalse(counts.reserve(0));
        for (int i = 1; i < Counts.MOST_REFERENCES; i++) {
            assertFalse(counts.finish(0));
        }
        assertTrue(counts.finish(0));
        assertEquals(0, counts.numCached());
    }

    @Test
    void freeBlocksAreCountedWhereverTheyAre() {
        assertEquals(-1, counts.freeIfFewerThan(2));
        assertEquals(2, counts.freeIfFewerThan(3));
        counts.deposit(1);
        assertEquals(2, counts.freeIfFewerThan(3));
        counts.claim(0);
        assertEquals(1, counts.freeIfFewerThan(2));
        assertEquals(1, counts.numFree());
    }
}
