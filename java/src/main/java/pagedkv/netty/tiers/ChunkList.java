package pagedkv.netty.tiers;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import pagedkv.memory.Ledger;

/**
 * The chunks of an arena whose use is between two percentages (Netty's {@code PoolChunkList}).
 *
 * <p>A chunk that reaches the upper bound moves on to the next list, one that falls below the lower bound moves back.
 * The ranges of neighbours overlap, so that a chunk at a bound does not change lists with every call. A chunk that
 * would move back where no list is before goes back to the device.
 */
public final class ChunkList {

    private final String name;
    private final int minUsage;
    private final int maxUsage;
    private final int maxRequestBytes;
    private final ChunkList next;
    private ChunkList previous;
    private final Deque<Chunk> chunks = new ArrayDeque<>();

    ChunkList(String name, int minUsage, int maxUsage, ChunkList next, int chunkBytes) {
        this.name = name;
        this.minUsage = minUsage;
        this.maxUsage = maxUsage;
        this.next = next;
        // more than what the emptiest chunk here can have free need not be looked for
        maxRequestBytes = (int) (chunkBytes * (100L - Math.max(1, minUsage)) / 100);
    }

    void setPrevious(ChunkList previous) {
        this.previous = previous;
    }

    /** The first chunk here that has a free run, asked through {@code take}; or null. */
    <T> T allocate(int normBytes, ChunkRequest<T> take, Ledger log) {
        if (chunks.isEmpty()) {
            log.look(name, 0, 0, "has no chunks");
            return null;
        }
        if (normBytes > maxRequestBytes) {
            if (log.isWatched()) {
                log.look(name, 0, 0, "its chunks have at most " + maxRequestBytes + " bytes free");
            }
            return null;
        }
        for (Chunk chunk : chunks) {
            var taken = take.from(chunk, log.isWatched() ? "%s, chunk %d, ".formatted(name, chunk.index()) : "");
            if (taken != null) {
                if (chunk.usagePercent() >= maxUsage) {
                    chunks.remove(chunk);
                    next.add(chunk);
                    noteMove(chunk, log);
                }
                return taken;
            }
        }
        return null;
    }

    /** A chunk, in this list or in the first one after it that is full enough. */
    void add(Chunk chunk) {
        if (chunk.usagePercent() >= maxUsage) {
            next.add(chunk);
        } else {
            put(chunk);
        }
    }

    /** Something of a chunk of this list was freed; false if the chunk is not wanted any more. */
    boolean freed(Chunk chunk, Ledger log) {
        if (chunk.usagePercent() >= minUsage) {
            return true;
        }
        chunks.remove(chunk);
        boolean stays = previous != null && previous.moveBack(chunk);
        if (stays) {
            noteMove(chunk, log);
        } else if (log.isWatched()) {
            log.note("chunk %d is empty and in %s: it goes back to the device".formatted(chunk.index(), name));
        }
        return stays;
    }

    private boolean moveBack(Chunk chunk) {
        if (chunk.usagePercent() < minUsage) {
            return previous != null && previous.moveBack(chunk);
        }
        put(chunk);
        return true;
    }

    private void put(Chunk chunk) {
        chunk.list = this;
        chunks.addFirst(chunk);
    }

    private void noteMove(Chunk chunk, Ledger log) {
        if (log.isWatched()) {
            log.note("chunk %d is %d %% used: it moves from %s to %s"
                    .formatted(chunk.index(), chunk.usagePercent(), name, chunk.list.name));
        }
    }

    public String name() {
        return name;
    }

    /** The chunks here, in the order in which they are asked. */
    public List<Chunk> chunks() {
        return List.copyOf(chunks);
    }

    @Override
    public String toString() {
        return name + " " + chunks;
    }
}
