/**
 * An explorer of interleavings: runs small programs of two or three threads on somebody's stack of free blocks, under
 * one schedule after the other, until one breaks it.
 *
 * <p>The words. A <em>step</em> is one access to the shared memory, or the begin of a call; between two steps a thread
 * touches nothing that others can see. A <em>schedule</em> says which thread takes the next step, from the first to the
 * last. A <em>preemption</em> is a change to another thread in the middle of a call, though the first one could go on.
 * The schedules without a preemption come first, then those with one, and so on: so the first that breaks a stack is
 * about the simplest that does, and it is the same one on every run. What one schedule did, step by step, is a
 * <em>trace</em>.
 *
 * <p>Read {@link pagedkv.interleaving.SharedStack}, {@link pagedkv.interleaving.Program}, then
 * {@link pagedkv.interleaving.Explorer}, which is built on {@code Run} (one schedule) and {@code ProgramThread} (one
 * thread).
 */
package pagedkv.interleaving;
