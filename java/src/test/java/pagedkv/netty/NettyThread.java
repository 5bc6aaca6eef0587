package pagedkv.netty;

import io.netty.util.concurrent.FastThreadLocalThread;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;

/** Runs something on a thread of Netty's kind, the only one for which Netty keeps caches. */
final class NettyThread {

    private NettyThread() {}

    static <T> T call(Callable<T> work) throws Exception {
        var task = new FutureTask<>(work);
        new FastThreadLocalThread(task).start();
        return task.get();
    }
}
