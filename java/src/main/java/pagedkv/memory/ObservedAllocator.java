package pagedkv.memory;

import java.util.LinkedHashMap;
import java.util.Objects;
import java.util.function.Consumer;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.PoolException;

/**
 * What all allocators share: one monitor, the checks of arguments, live handles, and one event per call.
 *
 * <p>An allocator states in two methods how it takes memory and gives it back, and enters what it does into the
 * {@link Ledger}; where memory can grow in place it states that in a third. They run under the monitor of the
 * allocator.
 *
 * @param <P> the allocator's own notes on where an owner's memory is
 */
public abstract class ObservedAllocator<P> implements MemoryAllocator {

    private static final String NO_HANDLE = "a handle is needed, as allocate returned it, not null";

    private final Ledger ledger = new Ledger();
    private MemoryObserver observer;
    private long step;

    /** Finds memory and enters it as taken, or throws an {@link OutOfDeviceMemoryException}. */
    protected abstract P take(String owner, long sizeBytes, Ledger log);

    /** Gives memory back and enters that. */
    protected abstract void give(P place, Ledger log);

    /** Grows memory where it is and enters that; false if it has to move. */
    protected boolean fill(P place, long newBytes, Ledger log) {
        return false;
    }

    @Override
    public final synchronized MemoryHandle allocate(String owner, long sizeBytes) {
        requireSize(sizeBytes);
        ledger.begin(observer != null);
        try {
            var handle = new Held<>(this, owner, sizeBytes, take(owner, sizeBytes, ledger));
            report("allocate", owner, sizeBytes, null);
            return handle;
        } catch (OutOfDeviceMemoryException refusal) {
            report("allocate", owner, sizeBytes, refusal);
            throw refusal;
        }
    }

    @Override
    public final synchronized MemoryHandle grow(MemoryHandle handle, long sizeBytes) {
        Objects.requireNonNull(handle, NO_HANDLE);
        requireSize(sizeBytes);
        if (sizeBytes < handle.sizeBytes()) {
            throw new IllegalArgumentException("%s has %d bytes and cannot grow to %d, which is less"
                    .formatted(handle.owner(), handle.sizeBytes(), sizeBytes));
        }
        ledger.begin(observer != null);
        try {
            var old = live(handle);
            P place = old.place;
            if (!fill(place, sizeBytes, ledger)) {
                place = take(old.owner, sizeBytes, ledger);
                ledger.moved(old.sizeBytes);
                give(old.place, ledger);
            }
            old.live = false;
            report("grow", old.owner, sizeBytes, null);
            return new Held<>(this, old.owner, sizeBytes, place);
        } catch (OutOfDeviceMemoryException | DoubleFreeException refusal) {
            report("grow", handle.owner(), sizeBytes, refusal);
            throw refusal;
        }
    }

    @Override
    public final synchronized void free(MemoryHandle handle) {
        Objects.requireNonNull(handle, NO_HANDLE);
        ledger.begin(observer != null);
        try {
            var old = live(handle);
            old.live = false;
            give(old.place, ledger);
            report("free", old.owner, old.sizeBytes, null);
        } catch (DoubleFreeException refusal) {
            report("free", handle.owner(), handle.sizeBytes(), refusal);
            throw refusal;
        }
    }

    @Override
    public final synchronized Layout layout() {
        return ledger.layout();
    }

    @Override
    public final synchronized void observe(MemoryObserver newObserver) {
        observer = newObserver;
    }

    /** Work of an allocator's own that is none of the three calls; the event names {@code op} and has no size. */
    protected final synchronized void carryOut(String op, String owner, Consumer<Ledger> work) {
        ledger.begin(observer != null);
        work.accept(ledger);
        report(op, owner, 0, null);
    }

    /** Where the memory of a live handle is. */
    protected final P placeOf(MemoryHandle handle) {
        return live(handle).place;
    }

    private static void requireSize(long sizeBytes) {
        if (sizeBytes < 1) {
            throw new IllegalArgumentException("cannot allocate " + sizeBytes + " bytes: ask for 1 or more");
        }
    }

    @SuppressWarnings("unchecked") // a handle of this allocator was made by it, with its own kind of place
    private Held<P> live(MemoryHandle handle) {
        if (handle instanceof Held<?> held && held.allocator == this && held.live) {
            return (Held<P>) held;
        }
        throw new DoubleFreeException("this handle of %s is not live here: it was freed, or a grow gave another one; "
                .formatted(handle.owner()) + "use the handle that the last call returned, and free it once");
    }

    private void report(String op, String owner, long sizeBytes, PoolException refusal) {
        if (observer == null) {
            return;
        }
        var detail = new LinkedHashMap<String, Object>();
        if (refusal != null) {
            detail.put("error", refusal.kind());
            detail.put("message", refusal.getMessage());
        }
        ledger.describe(detail, sizeBytes);
        observer.onEvent(new MemoryEvent(step++, op, owner, sizeBytes, ledger.changes(), detail));
    }

    private static final class Held<P> implements MemoryHandle {

        private final ObservedAllocator<P> allocator;
        private final String owner;
        private final long sizeBytes;
        private final P place;
        private boolean live = true;

        Held(ObservedAllocator<P> allocator, String owner, long sizeBytes, P place) {
            this.allocator = allocator;
            this.owner = owner;
            this.sizeBytes = sizeBytes;
            this.place = place;
        }

        @Override
        public String owner() {
            return owner;
        }

        @Override
        public long sizeBytes() {
            return sizeBytes;
        }

        @Override
        public String toString() {
            return "%s, %d bytes%s".formatted(owner, sizeBytes, live ? "" : ", not live any more");
        }
    }
}
