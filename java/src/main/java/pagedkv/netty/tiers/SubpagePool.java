package pagedkv.netty.tiers;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The pages of an arena that have a free element of one size. The page that joined last serves next.
 *
 * <p>A full page leaves and joins again with its first free. An empty page is handed back to its chunk, but only if
 * the pool has another page: so the last one of a size stays, and a program that allocates and frees one small buffer
 * over and over does not take a page and give it back each time. It also means that one page of a chunk can stay in
 * use when every buffer is freed.
 */
final class SubpagePool {

    private final int elementBytes;
    private final Deque<Subpage> pages = new ArrayDeque<>();

    SubpagePool(int elementBytes) {
        this.elementBytes = elementBytes;
    }

    int elementBytes() {
        return elementBytes;
    }

    /** The page that serves next, or null. */
    Subpage first() {
        return pages.peekFirst();
    }

    void add(Subpage page) {
        pages.addFirst(page);
    }

    Slot allocate(Subpage page) {
        var slot = page.allocate();
        if (page.isFull()) {
            pages.remove(page);
        }
        return slot;
    }

    /** Frees an element; true if its page is to be handed back to the chunk. */
    boolean free(Subpage page, int element) {
        boolean wasFull = page.isFull();
        page.free(element);
        if (wasFull) {
            pages.addFirst(page);
        } else if (page.isEmpty() && pages.size() > 1) {
            pages.remove(page);
            return true;
        }
        return false;
    }

    int numPages() {
        return pages.size();
    }
}
