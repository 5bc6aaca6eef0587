package pagedkv.shared;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * The lock file of one pool: whoever has byte s locked is the member in slot s, and lives.
 *
 * <p>The kernel drops a lock when its process ends, in whichever way; so "nobody has this byte locked" is exactly
 * "whoever was here is gone". A process id would not do: ids are used again, and differ between containers. A stopped
 * process keeps its locks.
 *
 * <p>{@link FileChannel#tryLock} takes POSIX locks, which belong to the process. Two of their properties matter here:
 * <ul>
 *   <li>They are dropped as soon as the process closes <em>any</em> descriptor of the file. So there is one object for
 *       each file in a JVM, it is never closed, and it is kept reachable (a channel that is collected is closed).
 *   <li>They do not exclude the process that has them. Within a JVM, the channel does that: a second lock on the same
 *       byte is an {@link OverlappingFileLockException}, which here means that somebody has it. The {@link FileLock}s
 *       are kept too: the JVM forgets the ones that were collected.
 * </ul>
 *
 * <p>{@code tryLock} cannot be interrupted, unlike other calls of a channel, which are answered by closing it.
 */
final class LockFile {

    // The path contains the pool's random id, so it never comes to mean another file.
    private static final Map<Path, LockFile> OPEN = new HashMap<>();

    private final Path path;
    private final FileChannel channel;
    private final Map<Integer, FileLock> held = new HashMap<>();

    private LockFile(Path path, FileChannel channel) {
        this.path = path;
        this.channel = channel;
    }

    /**
     * This JVM's only object for the file.
     *
     * @throws NoSuchPoolException if it is not there
     */
    static LockFile of(Path path) {
        return open(path, Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE));
    }

    /** The same, for a file that is not there yet. */
    static LockFile create(Path path) {
        return open(path, Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW));
    }

    private static LockFile open(Path path, Set<StandardOpenOption> options) {
        synchronized (OPEN) {
            var file = OPEN.get(path);
            if (file == null) {
                try {
                    file = new LockFile(path, FileChannel.open(path, options, PoolFiles.ONLY_FOR_THE_OWNER));
                } catch (NoSuchFileException gone) {
                    throw new NoSuchPoolException("the lock file " + path + " is not there: the pool has just been "
                            + "removed");
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
                OPEN.put(path, file);
            }
            return file;
        }
    }

    /** Locks the slot's byte, without waiting. False: somebody has it, here or elsewhere. */
    synchronized boolean tryLock(int slot) {
        var lock = tryLock(slot, false);
        if (lock == null) {
            return false;
        }
        held.put(slot, lock);
        return true;
    }

    synchronized void unlock(int slot) {
        release(held.remove(slot));
    }

    /**
     * Whether somebody has the byte locked.
     *
     * <p>Java cannot ask that without trying. So if nobody has it, it is locked for a moment, shared: who wants to join
     * or to reap at that moment finds this slot taken, and the next one free. Others that only ask are not disturbed.
     */
    synchronized boolean isLocked(int slot) {
        if (held.containsKey(slot)) {
            return true;
        }
        var lock = tryLock(slot, true);
        if (lock == null) {
            return true;
        }
        release(lock);
        return false;
    }

    private FileLock tryLock(int slot, boolean shared) {
        try {
            return channel.tryLock(slot, 1, shared);
        } catch (OverlappingFileLockException inThisJvm) {
            return null;
        } catch (IOException error) {
            throw new UncheckedIOException("cannot lock " + path, error);
        }
    }

    private void release(FileLock lock) {
        try {
            lock.release();
        } catch (IOException error) {
            throw new UncheckedIOException("cannot unlock " + path, error);
        }
    }
}
