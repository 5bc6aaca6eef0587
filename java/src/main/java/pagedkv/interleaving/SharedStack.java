package pagedkv.interleaving;

import java.lang.reflect.InvocationTargetException;

/**
 * A stack of free blocks for several threads: extend it, and write {@link #pop} and {@link #push}.
 *
 * <p>What the threads share is the <em>head</em>, which names the block on top, and for each block which one lies
 * <em>below</em> it. Each access to them is one step, and between two steps another thread may take any number of its
 * own. The stack's class needs a public constructor without parameters, which uses neither head nor below.
 *
 * <p>The lower 32 bits of the head are the block on top, or {@link #NONE}. What the upper 32 bits mean is up to the
 * stack; they are 0 in the beginning.
 */
public abstract class SharedStack {

    /** In the place of a block: there is none. */
    public static final int NONE = -1;

    private Memory memory;

    /** Takes the block on top. {@link #NONE} if the stack is empty. */
    public abstract int pop();

    /** Puts a block on top. */
    public abstract void push(int block);

    protected final long head() {
        return memory().head();
    }

    protected final void setHead(long head) {
        memory().setHead(head);
    }

    /** Writes {@code wanted} if the head is still {@code seen}, in one step; false if it is not, and nothing is written. */
    protected final boolean compareAndSetHead(long seen, long wanted) {
        return memory().compareAndSetHead(seen, wanted);
    }

    /** The block below this one, or {@link #NONE}. */
    protected final int below(int block) {
        return memory().below(block);
    }

    protected final void setBelow(int block, int below) {
        memory().setBelow(block, below);
    }

    /** A new stack of this class, which works on that memory. */
    static SharedStack make(Class<? extends SharedStack> type, Memory memory) {
        try {
            SharedStack stack = type.getConstructor().newInstance();
            stack.memory = memory;
            return stack;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException failure) {
                throw failure;
            }
            throw new IllegalArgumentException("the constructor of " + type.getSimpleName() + " failed: " + e.getCause(),
                    e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException(type.getSimpleName() + " needs to be a public class, not abstract, with a "
                    + "public constructor without parameters", e);
        }
    }

    private Memory memory() {
        if (memory == null) {
            throw new IllegalStateException("head and below can be used in pop() and push(), not in the constructor");
        }
        return memory;
    }
}
