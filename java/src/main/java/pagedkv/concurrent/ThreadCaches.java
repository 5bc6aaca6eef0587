package pagedkv.concurrent;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * The caches of all threads that have used one pool.
 *
 * <p>A thread finds its own without a lock. The list of all of them is for statistics, and to notice dead threads: from
 * time to time, when a new thread comes, their caches are handed to the pool and struck off. Nothing depends on when
 * that happens, since a block in a dead thread's cache can be taken all the time.
 */
final class ThreadCaches {

    private record Entry(WeakReference<Thread> thread, ThreadCache cache) {

        boolean isDead() {
            var owner = thread.get();
            return owner == null || !owner.isAlive();
        }
    }

    private final int cacheBlocks;
    private final Consumer<ThreadCache> takeOver;
    private final ThreadLocal<ThreadCache> own = ThreadLocal.withInitial(this::register);
    private final List<Entry> all = new ArrayList<>();
    private int sizeForNextLook = 8;
    private CacheStats ofDeadThreads = new CacheStats(0, 0);

    /** @param takeOver is given the cache of a dead thread, once, with nobody else using it */
    ThreadCaches(int cacheBlocks, Consumer<ThreadCache> takeOver) {
        this.cacheBlocks = cacheBlocks;
        this.takeOver = takeOver;
    }

    /** The calling thread's. */
    ThreadCache own() {
        return own.get();
    }

    synchronized CacheStats stats() {
        var sum = ofDeadThreads;
        for (Entry entry : all) {
            sum = sum.plus(entry.cache.stats());
        }
        return sum;
    }

    private synchronized ThreadCache register() {
        if (all.size() >= sizeForNextLook) {
            strikeOffTheDead();
            sizeForNextLook = 2 * all.size() + 8; // so that a look at all costs each newcomer a fixed part
        }
        var cache = new ThreadCache(cacheBlocks);
        all.add(new Entry(new WeakReference<>(Thread.currentThread()), cache));
        return cache;
    }

    private void strikeOffTheDead() {
        all.removeIf(entry -> {
            if (!entry.isDead()) {
                return false;
            }
            // a thread's last step happens-before isAlive() says no: its list can be read
            ofDeadThreads = ofDeadThreads.plus(entry.cache.stats());
            takeOver.accept(entry.cache);
            return true;
        });
    }
}
