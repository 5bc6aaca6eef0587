package pagedkv.shared;

import static pagedkv.shared.Layout.CACHED;
import static pagedkv.shared.Layout.CONTENT;
import static pagedkv.shared.Layout.HOLDERS;
import static pagedkv.shared.Layout.NUM_SLOTS;
import static pagedkv.shared.Layout.REAPS_AT;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.ObservedPool;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.UseAfterFreeException;

/**
 * One pool of blocks that several processes use at once, in Java and Python, and that survives the death of any of
 * them.
 *
 * <pre>
 *   var pool = SharedPool.create("kv", 1024, 65_536);      in one process
 *   var pool = SharedPool.join("kv");                      in each of the others
 *   int[] blocks = pool.allocate(4);
 *   pool.buffer(blocks[0]).putLong(0, 42);
 *   pool.release(blocks);
 * </pre>
 *
 * <p>Every joined pool object is a <em>member</em>, and owns what it allocates and retains: only the member that took a
 * reference can release it. Two objects that join the same pool in one process are two members. When a member's process
 * dies, {@link #reap} in any other gives back exactly what it held; nothing has to stop for that.
 *
 * <p>The contract is that of {@link pagedkv.pool.Pool}, seen from one member: a release by a member without a reference
 * is a double free, also if others have some; {@code retain} makes this member a holder of a block that somebody else
 * holds; {@code refcount} counts everybody's references. An observer sees the calls of this member only.
 *
 * <p>Threads may use one member; they take turns. Threads that are to work side by side each join for themselves.
 *
 * <p>After {@link #close}, every call but {@code close} and {@code unlink} is refused. Buffers keep their memory mapped
 * for as long as somebody can reach them.
 */
public final class SharedPool extends ObservedPool implements AutoCloseable {

    private static final System.Logger LOG = System.getLogger("pagedkv.shared");
    private static final long RETRY_MILLIS = 10;

    private final String name;
    private final Layout layout;
    private final Mapping mapping;
    private final Atomics atomics;
    private final LockFile locks;
    private final SlotTable slots;
    private final int slot;
    private final Guards guards;
    private Operations operations;
    /** Null if the pool has none. */
    private final ContentIndex index;

    /** What the call of retain that is under way asks for, or null. */
    private int[] wantedGenerations;

    // making and joining

    /** {@link #create(String, int, int, PoolOptions)} as it is by default. */
    public static SharedPool create(String name, int numBlocks, int blockBytes) {
        return create(name, numBlocks, blockBytes, PoolOptions.DEFAULT);
    }

    /**
     * Makes a pool of so many blocks of so many bytes, and joins it.
     *
     * @throws PoolExistsException if the name is taken
     * @throws NoSharedMemoryException if there is too little of it
     * @throws IllegalArgumentException for a name or size that cannot be
     * @throws UnsupportedOperationException where there are no shared pools
     */
    public static SharedPool create(String name, int numBlocks, int blockBytes, PoolOptions options) {
        return create(name, numBlocks, blockBytes, options, new Atomics());
    }

    static SharedPool create(String name, int numBlocks, int blockBytes, PoolOptions options, Atomics atomics) {
        var files = PoolFiles.SHARED_MEMORY;
        files.checkSystem();
        files.poolPath(name);
        // sizes that cannot be, before anything is removed
        new Layout(numBlocks, blockBytes, options.guard(), options.tokensPerBlock(), 1);
        if (options.replace()) {
            files.remove(name);
        }
        files.make(name, numBlocks, blockBytes, options.guard(), options.tokensPerBlock(), mapping -> {
            if (options.guard()) {
                var guards = new Guards(mapping);
                for (int block = 0; block < numBlocks; block++) {
                    guards.write(block, Overrun.NOBODY, 0);
                }
            }
        });
        return join(name, options, atomics);
    }

    /** {@link #join(String, PoolOptions)} as it is by default. */
    public static SharedPool join(String name) {
        return join(name, PoolOptions.DEFAULT);
    }

    /**
     * Joins a pool that exists.
     *
     * @throws NoSuchPoolException if there is none of this name
     * @throws NotReadyException if it is still being made
     * @throws IncompatiblePoolException if it is none, or one of another version or size
     * @throws NoFreeSlotException if it has as many members as it can have
     * @throws UnsupportedOperationException where there are no shared pools
     */
    public static SharedPool join(String name, PoolOptions options) {
        return join(name, options, new Atomics());
    }

    static SharedPool join(String name, PoolOptions options, Atomics atomics) {
        PoolFiles.SHARED_MEMORY.checkSystem();
        long giveUp = System.nanoTime() + (long) (options.waitSeconds() * 1e9);
        while (true) {
            try {
                var opened = PoolFiles.SHARED_MEMORY.open(name);
                return new SharedPool(name, opened, atomics, options.cacheBlocks(), giveUp);
            } catch (NotReadyException notReady) {
                if (!waitUntil(giveUp)) {
                    throw notReady;
                }
            }
        }
    }

    /**
     * Removes a pool's name as {@link #unlink} does, without joining it: one that is damaged, of another version, or
     * was never finished. False if there is none.
     */
    public static boolean remove(String name) {
        PoolFiles.SHARED_MEMORY.checkSystem();
        return PoolFiles.SHARED_MEMORY.remove(name);
    }

    private SharedPool(String name, PoolFiles.Opened opened, Atomics atomics, int cacheBlocks, long giveUp) {
        this.name = name;
        this.atomics = atomics;
        mapping = opened.mapping();
        locks = opened.locks();
        layout = mapping.layout;
        slots = new SlotTable(mapping, atomics, locks);
        guards = layout.guard ? new Guards(mapping) : null;
        slot = takeSlot(giveUp);
        try {
            var ready = new Operations(mapping, atomics, slot, cacheBlocks);
            if (slots.inUse(slot)) { // whoever had it died
                ready.reap(1L << slot);
                slots.clear(slot);
                atomics.add(mapping.header, REAPS_AT, 1);
            }
            slots.enter(slot);
            operations = ready;
            index = layout.tokensPerBlock == 0 ? null : new ContentIndex(mapping, atomics, ready, slot);
        } catch (RuntimeException | Error error) {
            locks.unlock(slot);
            throw error;
        }
    }

    private int takeSlot(long giveUp) {
        do {
            for (int candidate = 0; candidate < NUM_SLOTS; candidate++) {
                if (locks.tryLock(candidate)) {
                    return candidate;
                }
            }
            // it may be that somebody is reaping, and has slots locked that are free in a moment
        } while (waitUntil(giveUp));
        throw new NoFreeSlotException(("the pool '%s' has %d members already, and no slot for one more; close() those "
                + "that are not needed (this is process %d):\n%s")
                .formatted(name, NUM_SLOTS, ProcessHandle.current().pid(),
                slots.members().stream().map(Member::toString).collect(Collectors.joining("\n"))));
    }

    /** Waits a little; false if the time is over, or the thread is interrupted. */
    private static boolean waitUntil(long giveUp) {
        if (System.nanoTime() - giveUp >= 0) {
            return false;
        }
        try {
            Thread.sleep(RETRY_MILLIS);
            return true;
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    // the contract

    @Override
    protected int[] take(int n) {
        var blocks = ready().allocate(n);
        if (blocks == null) {
            throw tooFew(n);
        }
        if (guards != null) {
            for (int block : blocks) {
                guards.handOut(block, slot, operations.generation(block));
            }
        }
        return blocks;
    }

    private OutOfBlocksException tooFew(int n) {
        var refusal = OutOfBlocksException.of(n, operations.numFree(), layout.numBlocks);
        var dead = slots.members().stream().filter(member -> !member.alive())
                .map(member -> String.valueOf(member.slot())).collect(Collectors.joining(", "));
        if (dead.isEmpty()) {
            return refusal;
        }
        return new OutOfBlocksException(refusal.getMessage() + (dead.contains(",")
                ? "; the members in slots " + dead + " have died: reap() takes back what they held"
                : "; the member in slot " + dead + " has died: reap() takes back what it held"));
    }

    /**
     * One more reference to each block that must be of a certain generation (see {@link #generation}): then it is still
     * the same handing-out that one has heard of, not a later one. Fewer than 16,384 may lie between.
     *
     * @throws UseAfterFreeException if one of them is free or of another generation; then nothing has changed
     */
    public synchronized void retain(int[] blocks, int[] generations, String owner) {
        Objects.requireNonNull(generations, "retain needs a generation for each block, or no array of them at all");
        if (blocks != null && generations.length != blocks.length) {
            throw new IllegalArgumentException(
                    "%d blocks need as many generations, got %d".formatted(blocks.length, generations.length));
        }
        wantedGenerations = generations;
        try {
            retain(blocks, owner);
        } finally {
            wantedGenerations = null;
        }
    }

    @Override
    protected void addReferences(int[] blocks) {
        var generations = wantedGenerations;
        wantedGenerations = null; // not for a call that an observer makes
        var ready = ready();
        requireBlocks(blocks);
        int refused = ready.retain(blocks, generations);
        if (refused < 0) {
            return;
        }
        int block = blocks[refused];
        if (generations == null || ready.refcount(block) == 0) {
            throw UseAfterFreeException.of(block, null);
        }
        throw new UseAfterFreeException("block %d has been handed out again: its generation is %d, asked for was %d"
                .formatted(block, ready.generation(block), generations[refused]));
    }

    @Override
    protected void dropReferences(int[] blocks) {
        var ready = ready();
        requireBlocks(blocks);
        if (guards != null) {
            requireGuards(blocks);
        }
        int refused = ready.release(blocks);
        if (refused >= 0) {
            throw doubleFree(blocks[refused], blocks);
        }
    }

    private void requireGuards(int[] blocks) {
        var overruns = guards.overruns(IntStream.of(blocks).distinct().filter(block -> operations.ownCount(block) > 0));
        if (!overruns.isEmpty()) {
            throw new BlockOverrunException(overruns.stream().map(Overrun::toString).collect(Collectors.joining("; "))
                    + ". Nothing is released; repair(block) makes the guards good again", overruns);
        }
    }

    private DoubleFreeException doubleFree(int block, int[] blocks) {
        int own = operations.ownCount(block);
        int all = operations.refcount(block);
        int times = (int) IntStream.of(blocks).filter(other -> other == block).count();
        if (own == all) {
            return DoubleFreeException.of(block, all, times, null);
        }
        var what = own > 0
                ? "has %d references of this member but stands %d times in this release".formatted(own, times)
                : "has no reference of this member (but %d of others, who alone can release them)".formatted(all);
        return new DoubleFreeException("block %d %s: release each reference only once".formatted(block, what));
    }

    /** Of all members together. */
    @Override
    public synchronized int refcount(int block) {
        requireBlock(block);
        return ready().refcount(block);
    }

    /** Others may be changing them meanwhile. */
    @Override
    public synchronized int[] refcounts() {
        var ready = ready();
        return IntStream.range(0, layout.numBlocks).map(ready::refcount).toArray();
    }

    /** Blocks that this member could take now. Looks at every block's word. */
    @Override
    public synchronized int numFreeBlocks() {
        return ready().numFree();
    }

    @Override
    public int numBlocks() {
        return layout.numBlocks;
    }

    public String name() {
        return name;
    }

    public int blockBytes() {
        return layout.blockBytes;
    }

    /** This member's slot. */
    public int slot() {
        return slot;
    }

    // what is in the blocks, and who holds them

    /**
     * The bytes of a block that this member holds, to read and to write, without a copy; little-endian. After the
     * block's release it shows what the next holder writes, and must not be written to.
     *
     * <p>A block whose content can be found ({@link #publish}) is only for reading: others rely on it. A buffer from
     * before the publishing does not change. Members that hold a block together without its being published settle among
     * themselves who writes what. {@link #copyForWriting} gives a block that nobody else sees.
     *
     * @throws UseAfterFreeException if this member has no reference to the block
     */
    public synchronized ByteBuffer buffer(int block) {
        requireHeld(block);
        var bytes = mapping.block(block);
        boolean published = (operations.word(block) & CONTENT) != 0;
        return published ? bytes.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN) : bytes;
    }

    /**
     * A block with the same bytes that this member may write to: copy on write. {@code block} itself if this member has
     * the only reference to it and its content cannot be found. Else a new block with a copy; one reference to the old
     * one is released.
     *
     * @param owner for the observer; may be null
     * @throws UseAfterFreeException if this member has no reference to it
     * @throws OutOfBlocksException if there is no block for the copy; in both cases nothing has changed
     */
    public synchronized int copyForWriting(int block, String owner) {
        requireHeld(block);
        if ((operations.word(block) & (HOLDERS | CONTENT)) == 1L << slot && operations.ownCount(block) == 1) {
            return block;
        }
        if (guards != null) {
            requireGuards(new int[] {block});
        }
        int copy = allocate(1, owner)[0];
        mapping.block(copy).put(mapping.block(block));
        release(new int[] {block}, owner);
        return copy;
    }

    private void requireHeld(int block) {
        requireBlock(block);
        if (ready().ownCount(block) == 0) {
            throw new UseAfterFreeException(("this member has no reference to block %d (refcount %d): allocate or "
                    + "retain it first").formatted(block, operations.refcount(block)));
        }
    }

    /** Which handing-out of the block this is, modulo 16,384; goes up when it is handed out. */
    public synchronized int generation(int block) {
        requireBlock(block);
        return ready().generation(block);
    }

    /** The slots of the members that hold the block; those of dead ones too, until they are reaped. */
    public synchronized int[] holders(int block) {
        requireBlock(block);
        long word = ready().word(block);
        return (word & CACHED) != 0 ? new int[0]
                : IntStream.range(0, NUM_SLOTS).filter(s -> (word >>> s & 1) != 0).toArray();
    }

    /** Who has joined, this member included, and who of them has died and is not reaped yet. */
    public synchronized List<Member> members() {
        ready();
        return slots.members();
    }

    /** How many dead members have been reaped since the pool was created. */
    public synchronized long numReaps() {
        ready();
        return atomics.get(mapping.header, REAPS_AT);
    }

    // the prefix index

    /** How many tokens a block is the keys and values of; 0: the pool has no prefix index. */
    public int tokensPerBlock() {
        return (int) layout.tokensPerBlock;
    }

    /**
     * The blocks that hold the longest known beginning of these tokens, in full blocks. A look: nothing changes, and
     * others may have evicted them by the time one acts on it; {@link #reuse} holds them.
     *
     * @param salt what else the contents depend on (tenant, adapter, image), or null: only what was published with an
     *     equal one is found
     * @throws NoIndexException if the pool was made without an index
     */
    public synchronized int[] find(int[] tokens, String salt) {
        ready();
        return requireIndex().match(tokens, numFull(tokens), digest(salt), false);
    }

    /** {@link #find(int[], String)} of what was published without a salt. */
    public int[] find(int[] tokens) {
        return find(tokens, null);
    }

    /**
     * The same, with one more reference of this member to each block, whether somebody holds it or not: one that nobody
     * holds is not free any more. Their bytes are complete, and must not be written to. An observer hears of a retain.
     */
    public synchronized int[] reuse(int[] tokens, String salt, String owner) {
        ready();
        var blocks = requireIndex().match(tokens, numFull(tokens), digest(salt), true);
        if (blocks.length > 0) {
            report("retain", owner, blocks);
        }
        return blocks;
    }

    /** {@link #reuse(int[], String, String)} of what was published without a salt. */
    public int[] reuse(int[] tokens) {
        return reuse(tokens, null, null);
    }

    /**
     * Makes what these blocks contain findable: {@code blocks[i]} holds the i-th full block of the tokens.
     *
     * <p>Only when all of it is written, and for good: from now on others read it, whenever they like, also after this
     * member's death. Content that is known already, in another block, stays there, and the chain goes on under it.
     * The first block that cannot be published ends it: one with other holders, or with other content.
     *
     * @return how many of the contents are found now in these very blocks
     * @throws NoIndexException if the pool was made without an index
     * @throws IllegalArgumentException for more blocks than full blocks of tokens
     * @throws UseAfterFreeException for a block that this member does not hold; then nothing has changed
     */
    public synchronized int publish(int[] tokens, int[] blocks, String salt) {
        ready();
        requireIndex();
        if (blocks.length > numFull(tokens)) {
            throw new IllegalArgumentException("%d tokens are %d full blocks of %d, got %d blocks to publish".formatted(
                    tokens.length, numFull(tokens), tokensPerBlock(), blocks.length));
        }
        for (int block : blocks) {
            requireHeld(block);
        }
        var digest = digest(salt);
        long parent = ContentIndex.NONE;
        for (int i = 0; i < blocks.length; i++) {
            parent = index.publish(blocks[i], tokens, i, parent, digest);
            if (parent == ContentIndex.NONE) {
                break;
            }
        }
        var found = index.match(tokens, blocks.length, digest, false);
        return (int) IntStream.range(0, found.length).filter(i -> found[i] == blocks[i]).count();
    }

    /** {@link #publish(int[], int[], String)} without a salt. */
    public int publish(int[] tokens, int[] blocks) {
        return publish(tokens, blocks, null);
    }

    /**
     * What these held blocks contain cannot be found from now on, nor what was published after them; for instance since
     * they will be written to again, which may be done when nobody else has found them before ({@link #holders}).
     *
     * @throws UseAfterFreeException for a block that this member does not hold; then nothing has changed
     */
    public synchronized void unpublish(int... blocks) {
        ready();
        requireIndex();
        for (int block : blocks) {
            requireHeld(block);
        }
        for (int block : blocks) {
            index.unpublish(block);
        }
    }

    /** Blocks that nobody holds and whose contents can be found. Looks at every block's word. */
    public synchronized int numCachedBlocks() {
        ready();
        return index == null ? 0 : index.numCached();
    }

    private int numFull(int[] tokens) {
        return tokens.length / tokensPerBlock();
    }

    private ContentIndex requireIndex() {
        if (index == null) {
            throw new NoIndexException("the shared pool '" + name + "' has no prefix index: create it with "
                    + "PoolOptions.DEFAULT.withTokensPerBlock(16)");
        }
        return index;
    }

    /** The SHA-256 of the salt's UTF-8 bytes, as little-endian numbers; zeros for none. */
    private static long[] digest(String salt) {
        var digest = new long[ContentIndex.DIGEST_LONGS];
        if (salt != null) {
            try {
                var bytes = MessageDigest.getInstance("SHA-256").digest(salt.getBytes(StandardCharsets.UTF_8));
                ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(digest);
            } catch (NoSuchAlgorithmException impossible) {
                throw new IllegalStateException("every Java platform has SHA-256", impossible);
            }
        }
        return digest;
    }

    // guard mode

    public boolean guard() {
        return layout.guard;
    }

    /** Looks around every block, free ones too: what was overwritten. Always empty without guards. */
    public synchronized List<Overrun> verify() {
        ready();
        return guards == null ? List.of() : guards.overruns(IntStream.range(0, layout.numBlocks));
    }

    /** Writes the guards of a block anew, after an overrun was seen. */
    public synchronized void repair(int block) {
        requireBlock(block);
        ready();
        if (guards != null) {
            guards.write(block, slot, operations.generation(block));
        }
    }

    // coming to an end

    /**
     * Takes back what dead members held, and makes every free block easy to find again.
     *
     * <p>Others go on meanwhile; any number may reap at once. Takes time in proportion to the number of blocks.
     */
    public synchronized ReapReport reap() {
        var ready = ready();
        var locked = new ArrayList<Integer>();
        var reaped = new ArrayList<Reaped>();
        try {
            // In use first: locking a slot that is free, even for a moment, could turn away who wants to join.
            for (int other = 0; other < NUM_SLOTS; other++) {
                if (slots.inUse(other) && locks.tryLock(other)) {
                    locked.add(other);
                }
            }
            // in use still: it may have closed just before it could be locked
            var dead = locked.stream().filter(slots::inUse).map(slots::member).toList();
            if (!dead.isEmpty()) {
                var taken = ready.reap(dead.stream().mapToLong(member -> 1L << member.slot()).sum());
                for (Member member : dead) {
                    slots.clear(member.slot());
                    atomics.add(mapping.header, REAPS_AT, 1);
                    reaped.add(new Reaped(member.slot(), member.pid(), member.language(),
                            taken.references()[member.slot()], taken.blocks()[member.slot()]));
                }
            }
        } finally {
            locked.forEach(locks::unlock);
        }
        return new ReapReport(reaped, ready.heal());
    }

    /**
     * Leaves the pool: gives back what this member still holds (a line in the log says so if there is anything), and
     * the slot. The pool stays, for others to use and to join. A second call does nothing.
     */
    @Override
    public synchronized void close() {
        if (operations == null) {
            return;
        }
        var taken = operations.reap(1L << slot);
        slots.clear(slot);
        locks.unlock(slot);
        operations = null;
        if (taken.references()[slot] != 0) {
            LOG.log(System.Logger.Level.WARNING, "shared pool ''{0}'': closed with {1} references held; they are given "
                    + "back, and {2} blocks are free for others",
                    name, taken.references()[slot], taken.blocks()[slot]);
        }
    }

    /**
     * Removes the pool's name: nobody can join any more, and a new one of that name can be created. Members, this one
     * too, go on until they close; then the memory is free. Does nothing if the name is another pool's by now.
     */
    public void unlink() {
        PoolFiles.SHARED_MEMORY.remove(name, layout.poolId);
    }

    @Override
    public synchronized String toString() {
        return operations == null ? "SharedPool '%s', closed".formatted(name)
                : "SharedPool '%s': slot %d, %d of %d blocks of %d bytes free".formatted(
                        name, slot, operations.numFree(), layout.numBlocks, layout.blockBytes);
    }

    private Operations ready() {
        if (operations == null) {
            throw new PoolClosedException("this member of the shared pool '" + name + "' is closed");
        }
        return operations;
    }
}
