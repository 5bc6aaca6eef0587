package pagedkv.concurrent;

/** A stack of free blocks that several threads use at once. */
interface FreeStack {

    /**
     * Takes up to {@code most} blocks, but at least {@code least}, all in one step.
     *
     * @return how many were written to {@code into}, from index {@code from} on; 0 if at one moment during the call
     *     fewer than {@code least} were there
     */
    int pop(int[] into, int from, int least, int most);

    /** Puts {@code n} blocks back, from index {@code from} on; nobody else may have them. */
    void push(int[] blocks, int from, int n);

    int size();
}
