package pagedkv.concurrent;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Starts the same work on several threads at the same moment and waits for all of them. */
final class Workers {

    /** What one of the threads does; {@code worker} counts from 0. */
    @FunctionalInterface
    interface Work {
        void run(int worker) throws Exception;
    }

    private Workers() {
    }

    /**
     * @return what each thread threw, in no order; empty if all went well
     * @throws InterruptedException if the caller is interrupted; the threads are then interrupted too
     */
    static List<Throwable> run(int numThreads, Work work) throws InterruptedException {
        var failures = new ArrayList<Throwable>();
        var start = new CountDownLatch(1);
        var threads = new ArrayList<Thread>();
        for (int i = 0; i < numThreads; i++) {
            int worker = i;
            var thread = new Thread(() -> {
                try {
                    start.await();
                    work.run(worker);
                } catch (Throwable failure) {
                    synchronized (failures) {
                        failures.add(failure);
                    }
                }
            }, "worker " + i);
            thread.setDaemon(true);
            threads.add(thread);
            thread.start();
        }
        start.countDown();
        try {
            for (Thread thread : threads) {
                thread.join();
            }
        } catch (InterruptedException interrupted) {
            threads.forEach(Thread::interrupt);
            throw interrupted;
        }
        synchronized (failures) {
            return List.copyOf(failures);
        }
    }
}
