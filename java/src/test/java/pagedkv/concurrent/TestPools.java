package pagedkv.concurrent;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntFunction;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.Arguments;
import pagedkv.pool.Pool;

/** Every pool that threads are let loose on, by name. */
final class TestPools {

    private TestPools() {
    }

    static Stream<Arguments> all() {
        var makers = new TreeMap<String, IntFunction<Pool>>();
        makers.put("monitor", MonitorPool::new);
        makers.put("sharded, 4", n -> new ShardedPool(n, 4));
        makers.put("lock-free", LockFreePool::new);
        for (int cacheBlocks : new int[] {0, 1, 4, 64}) {
            makers.put("cached, " + cacheBlocks, n -> new CachedLockFreePool(n, cacheBlocks));
        }
        makers.put("netty", PoolKind.NETTY::make);
        return makers.entrySet().stream().map(TestPools::arguments);
    }

    private static Arguments arguments(Map.Entry<String, IntFunction<Pool>> maker) {
        return Arguments.of(maker.getKey(), maker.getValue());
    }
}
