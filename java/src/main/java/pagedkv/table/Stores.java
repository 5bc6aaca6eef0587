package pagedkv.table;

import java.util.NoSuchElementException;

/** What the stores have in common: their refusals, and a sum to add bytes to. */
final class Stores {

    private Stores() {
    }

    /** What was found for the sequence, if anything was. */
    static <T> T known(T found, long sequence) {
        if (found == null) {
            throw unknown(sequence);
        }
        return found;
    }

    static NoSuchElementException unknown(long sequence) {
        return new NoSuchElementException("no sequence %d: it was never appended to, or it was removed"
                .formatted(sequence));
    }

    static void requireInside(int logicalBlock, int length, long sequence) {
        if (logicalBlock < 0 || logicalBlock >= length) {
            throw new IndexOutOfBoundsException("no logical block %d: sequence %d has %d"
                    .formatted(logicalBlock, sequence, length));
        }
    }

    /** A total that a lambda can add to. */
    static final class Sum {
        private long bytes;

        Sum(long bytes) {
            this.bytes = bytes;
        }

        void add(long more) {
            bytes += more;
        }

        long bytes() {
            return bytes;
        }
    }
}
