/**
 * One pool for many threads: five ways to keep the same contract, and two mistakes to learn from.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>monitor</b>: one lock, and everything happens under it ({@link MonitorPool});</li>
 *   <li><b>shard</b>: a part of the blocks with a lock of its own ({@link ShardedPool});</li>
 *   <li><b>lock-free</b>: whichever thread is stopped, the others go on; each change is one compare-and-swap
 *       ({@link LockFreePool});</li>
 *   <li><b>tag</b>: a number beside the head of a stack that every change raises, so that a head that came back is not
 *       taken for one that never left ({@link TaggedStack}; without it: {@link UntaggedPool});</li>
 *   <li><b>thread cache</b>: free blocks that one thread keeps for itself ({@link CachedLockFreePool});</li>
 *   <li><b>quiescence</b>: no call is running.</li>
 * </ul>
 *
 * <p>{@link PoolKind} makes each of them by name, {@link PairTrial} and {@link PoolSmoke} let threads loose on them.
 * {@link Deadlock} and {@link DeadlockTrial} are about locks alone: two threads, two locks, each waits for the other's.
 */
package pagedkv.concurrent;
