package pagedkv.shared;

import java.nio.ByteBuffer;

/** Counts down before each write to shared memory; at 0 something else happens instead of it, and of all after it. */
final class SteppedAtomics extends Atomics {

    private final Runnable death;
    private long left = -1;

    /** @param death must not return */
    SteppedAtomics(Runnable death) {
        this.death = death;
    }

    /** So many more writes go through. */
    void arm(long steps) {
        left = steps;
    }

    void disarm() {
        left = -1;
    }

    private void step() {
        if (left == 0) {
            death.run();
        }
        if (left > 0) {
            left--;
        }
    }

    @Override
    long swap(ByteBuffer memory, int at, long seen, long wanted) {
        step();
        return super.swap(memory, at, seen, wanted);
    }

    @Override
    void setBits(ByteBuffer memory, int at, long bits) {
        step();
        super.setBits(memory, at, bits);
    }

    @Override
    long add(ByteBuffer memory, int at, long number) {
        step();
        return super.add(memory, at, number);
    }

    @Override
    void put(ByteBuffer memory, int at, long number) {
        step();
        super.put(memory, at, number);
    }

    @Override
    void putCount(ByteBuffer memory, int at, int count) {
        step();
        super.putCount(memory, at, count);
    }
}
