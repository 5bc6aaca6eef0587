package pagedkv.interleaving;

import java.util.List;
import java.util.concurrent.locks.LockSupport;

/**
 * One thread of a program. It takes a step only when it was granted one: before each access to the shared memory, and
 * before each call, it waits at its <em>gate</em>.
 */
final class ProgramThread extends Thread {

    /** Ends a thread whose run is over. */
    static final class RunIsOver extends Error {

        private static final long serialVersionUID = 1;

        RunIsOver() {
            super("the run is over", null, false, false);
        }
    }

    private final Run run;
    private final int number;
    private final List<Program.Call> calls;
    private final SharedStack stack;
    private final int[] popped;
    /** Steps. The controller sets it, and only while the thread is at its gate, or waits for another thread. */
    private volatile int granted;
    private volatile boolean atGate;
    private volatile boolean done;
    private volatile boolean inCall;   // between two steps of one call
    private Throwable failure;         // written before done

    ProgramThread(Run run, int number, List<Program.Call> calls, SharedStack stack) {
        super("thread " + Program.threadName(number));
        setDaemon(true);
        this.run = run;
        this.number = number;
        this.calls = calls;
        this.stack = stack;
        popped = new int[calls.size()];
    }

    // ── the thread itself ──

    @Override
    public void run() {
        try {
            for (var call : calls) {
                carryOut(call);
            }
        } catch (RunIsOver end) {
            // nothing is left to do
        } catch (Throwable thrown) {
            failure = thrown;
        } finally {
            done = true;
            LockSupport.unpark(run.controller);
        }
    }

    private void carryOut(Program.Call call) {
        if (call.pop()) {
            gate();
            run.add(Event.of(number, Event.Kind.CALL_POP, 0));
            inCall = true;
            int block = stack.pop();
            inCall = false;
            popped[call.slot()] = block;
            run.add(Event.of(number, Event.Kind.RETURN_POP, block));
        } else {
            int block = call.slot() < 0 ? call.block() : popped[call.slot()];
            if (block == SharedStack.NONE) {
                return; // what was not popped is not pushed
            }
            gate();
            run.add(Event.of(number, Event.Kind.CALL_PUSH, block));
            inCall = true;
            stack.push(block);
            inCall = false;
            run.add(Event.of(number, Event.Kind.RETURN_PUSH, block));
        }
    }

    /** Waits for a step, and takes it. */
    void gate() {
        if (granted == 0) {
            atGate = true;
            LockSupport.unpark(run.controller);
            while (granted == 0 && !run.isOver()) {
                LockSupport.park(this);
                Thread.interrupted(); // a thread that is interrupted would not wait
            }
            atGate = false; // before the step is counted: else it would seem to wait for one
        }
        if (run.isOver()) {
            throw new RunIsOver();
        }
        granted--;
        run.took(number);
    }

    // ── for the controller ──

    void grant(int steps) {
        granted = steps;
        LockSupport.unpark(this);
    }

    /** For a thread that waits for another one: when it wakes, it is to stop at its gate. */
    void takeBackSteps() {
        granted = 0;
    }

    /** Whether it is at its gate, with a step granted or without. */
    boolean isAtGate() {
        return atGate;
    }

    /** Whether it can be granted a step. */
    boolean isWaitingForStep() {
        return granted == 0 && atGate; // in this order: a thread leaves its gate, then counts the step
    }

    boolean isDone() {
        return done;
    }

    boolean isInCall() {
        return inCall;
    }

    Throwable failure() {
        return failure;
    }
}
