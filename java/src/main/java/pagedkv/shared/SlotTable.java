package pagedkv.shared;

import java.util.List;
import java.util.stream.IntStream;

/** Who is a member: the entries of a mapped pool. Each is written only by whoever has the slot's lock. */
final class SlotTable {

    private static final int PID = 0;
    private static final int LANGUAGE = 8;
    private static final int JOINED = 16;
    private static final int IN_USE = 24;

    private static final long PYTHON = 1;
    private static final long JAVA = 2;

    private final Mapping mapping;
    private final Atomics atomics;
    private final LockFile locks;

    SlotTable(Mapping mapping, Atomics atomics, LockFile locks) {
        this.mapping = mapping;
        this.atomics = atomics;
        this.locks = locks;
    }

    /** Whether there may be something to take back if nobody has the slot's lock. */
    boolean inUse(int slot) {
        return get(slot, IN_USE) != 0;
    }

    /** From here on a reaper looks at the slot if its owner is gone. */
    void enter(int slot) {
        put(slot, IN_USE, 1);
        put(slot, PID, ProcessHandle.current().pid());
        put(slot, LANGUAGE, JAVA);
        put(slot, JOINED, get(slot, JOINED) + 1);
    }

    /** Only after everything was taken back. */
    void clear(int slot) {
        put(slot, IN_USE, 0);
    }

    Member member(int slot) {
        long language = get(slot, LANGUAGE);
        var name = language == PYTHON ? "Python" : language == JAVA ? "Java"
                : "language " + Long.toUnsignedString(language);
        return new Member(slot, get(slot, PID), name, locks.isLocked(slot));
    }

    List<Member> members() {
        return IntStream.range(0, Layout.NUM_SLOTS).filter(this::inUse).mapToObj(this::member).toList();
    }

    private long get(int slot, int field) {
        return atomics.get(mapping.slots, slot * Layout.SLOT_BYTES + field);
    }

    private void put(int slot, int field, long number) {
        atomics.put(mapping.slots, slot * Layout.SLOT_BYTES + field, number);
    }
}
