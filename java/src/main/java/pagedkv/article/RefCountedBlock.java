package pagedkv.article;

/**
 * One block of the article's pool: an id and a count (N13).
 *
 * <p>Fault: neither method asks whether the change makes sense. A free block can be retained, and
 * the count can fall below zero.
 */
public final class RefCountedBlock {

    private final int id;
    private int refCount;

    public RefCountedBlock(int id) {
        this.id = id;
    }

    public int id() {
        return id;
    }

    public int refCount() {
        return refCount;
    }

    /** Starts a new life with one owner, whatever the count was. */
    void reset() {
        refCount = 1;
    }

    public void retain() {
        refCount++;
    }

    /** Counts down; true if nobody should hold the block any more. */
    public boolean release() {
        refCount--;
        return refCount <= 0;
    }
}
