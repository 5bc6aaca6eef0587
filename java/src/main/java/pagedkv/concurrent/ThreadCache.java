package pagedkv.concurrent;

import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * One thread's list of the free blocks it has put aside, the last one first. Only that thread uses it.
 *
 * <p>An entry is a hint: another thread may have taken the block meanwhile. So a block may also stand here twice, once
 * out of date. The counters are the exception to "only that thread": others read them for statistics, maybe late.
 */
final class ThreadCache {

    private final int[] blocks;
    private int size;
    private long hits;
    private long misses;

    ThreadCache(int cacheBlocks) {
        blocks = new int[cacheBlocks];
    }

    int size() {
        return size;
    }

    int pop() {
        return blocks[--size];
    }

    void push(int block) {
        blocks[size++] = block;
    }

    int[] popOldest(int n) {
        var oldest = Arrays.copyOf(blocks, n);
        System.arraycopy(blocks, n, blocks, 0, size - n);
        size -= n;
        return oldest;
    }

    /** A copy, the next one first. */
    IntStream hints() {
        var copy = Arrays.copyOf(blocks, size);
        return IntStream.range(0, copy.length).map(i -> copy[copy.length - 1 - i]);
    }

    void countHits(int n) {
        hits += n;
    }

    void countMisses(int n) {
        misses += n;
    }

    CacheStats stats() {
        return new CacheStats(hits, misses);
    }
}
