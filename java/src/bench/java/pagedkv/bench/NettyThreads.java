package pagedkv.bench;

import io.netty.util.concurrent.FastThreadLocalThread;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The worker threads as Netty likes them best, for all pools alike: on a {@code FastThreadLocalThread} Netty finds its
 * thread cache by an index. JMH makes this by name ({@code jmh.executor.class}).
 */
public final class NettyThreads extends ThreadPoolExecutor {

    public NettyThreads(int maxThreads, String prefix) {
        super(maxThreads, maxThreads, 1, TimeUnit.MINUTES, new LinkedBlockingQueue<>(), work -> {
            var thread = new FastThreadLocalThread(work, prefix);
            thread.setDaemon(true);
            return thread;
        });
    }
}
