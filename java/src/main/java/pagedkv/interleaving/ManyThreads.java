package pagedkv.interleaving;

import java.util.BitSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import pagedkv.concurrent.WatchedThreads;

/**
 * A stack under real threads, on real memory, at full speed. Each thread pops two blocks and pushes them back in the
 * same order, round after round: so the block that was on top comes to lie on top again, with another one below.
 *
 * <p>An {@link Explorer} finds what is wrong with a stack sooner and says how it comes about. This one shows that it
 * really happens.
 */
public final class ManyThreads {

    private static final int BLOCKS_PER_THREAD = 2;
    private static final int SPARE_BLOCKS = 2;
    private static final long PATIENCE_MILLIS = 3_000;

    /**
     * @param rounds that all threads did together, until the end or until something broke
     * @param numBlocks of the stack
     * @param lostBlocks that are neither on the stack in the end nor held
     * @param problem what a thread met first, or null
     */
    public record Result(long rounds, int numBlocks, int lostBlocks, String problem) {

        public boolean passed() {
            return lostBlocks == 0 && problem == null;
        }
    }

    /** What a right stack never does. */
    private static final class CannotBe extends RuntimeException {

        private static final long serialVersionUID = 1;

        CannotBe(String what) {
            super(what);
        }
    }

    private final SharedStack stack;
    private final AtomicMemory memory;
    private final int rounds;
    private final AtomicIntegerArray holders; // by block: how many threads hold it
    private final AtomicLong done = new AtomicLong();
    private final AtomicBoolean broken = new AtomicBoolean();
    private final AtomicReference<String> cannotBe = new AtomicReference<>();

    private ManyThreads(Class<? extends SharedStack> type, int numThreads, int rounds) {
        memory = new AtomicMemory(BLOCKS_PER_THREAD * numThreads + SPARE_BLOCKS);
        stack = SharedStack.make(type, memory);
        holders = new AtomicIntegerArray(memory.numBlocks());
        this.rounds = rounds;
    }

    /**
     * @param rounds of each thread
     * @throws InterruptedException if the caller is interrupted; the threads are interrupted then, too
     */
    public static Result run(Class<? extends SharedStack> type, int numThreads, int rounds) throws InterruptedException {
        if (numThreads < 1 || numThreads > 16 || rounds < 1) {
            throw new IllegalArgumentException("1 to 16 threads and at least one round, not %d threads and %d rounds"
                    .formatted(numThreads, rounds));
        }
        return new ManyThreads(type, numThreads, rounds).run(numThreads);
    }

    private Result run(int numThreads) throws InterruptedException {
        var threads = new WatchedThreads();
        var start = new CountDownLatch(numThreads);
        for (int i = 0; i < numThreads; i++) {
            threads.add("stack thread " + i, () -> {
                start.countDown();
                start.await();
                popAndPush();
            });
        }
        var watched = threads.run(done::get, PATIENCE_MILLIS);
        String problem = watched.report() != null ? "threads wait for each other in a circle"
                : cannotBe.get() != null ? cannotBe.get() : watched.problem();
        return new Result(done.get(), memory.numBlocks(), lost(), problem);
    }

    private void popAndPush() {
        try {
            for (int round = 0; round < rounds && !broken.get() && !Thread.currentThread().isInterrupted(); round++) {
                int first = pop();
                int second = pop();
                push(first);
                push(second);
                done.incrementAndGet();
            }
        } catch (CannotBe found) {
            cannotBe.compareAndSet(null, found.getMessage());
            broken.set(true);
        } catch (RuntimeException | Error failure) {
            broken.set(true);
            throw failure;
        }
    }

    private int pop() {
        int block = stack.pop();
        if (block == SharedStack.NONE) {
            throw new CannotBe("pop() returned NONE, and there are more blocks than all threads can hold");
        }
        Memory.checkBlock(block, memory.numBlocks(), "pop()");
        if (holders.incrementAndGet(block) > 1) {
            throw new CannotBe("pop() gave a thread block " + block + ", and another thread has it");
        }
        return block;
    }

    private void push(int block) {
        holders.decrementAndGet(block);
        stack.push(block);
    }

    /** Nobody runs any more. */
    private int lost() {
        var found = new BitSet();
        int[] below = new int[memory.numBlocks()];
        for (int block = 0; block < below.length; block++) {
            below[block] = memory.below(block);
            if (holders.get(block) > 0) {
                found.set(block);
            }
        }
        Memory.walk(memory.head(), below).forEach(found::set);
        return memory.numBlocks() - found.cardinality();
    }
}
