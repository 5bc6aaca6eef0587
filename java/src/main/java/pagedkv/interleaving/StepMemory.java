package pagedkv.interleaving;

/** The shared memory of one run: each access is a step, and is told. Only one thread runs at a time. */
final class StepMemory implements Memory {

    private final Run run;
    private final int[] below;
    private long head;

    StepMemory(Run run, Program program) {
        this.run = run;
        head = program.stacked() == 0 ? NONE & 0xFFFF_FFFFL : program.stacked() - 1;
        below = Memory.links(program.numBlocks(), program.stacked());
    }

    @Override
    public int numBlocks() {
        return below.length;
    }

    @Override
    public long head() {
        int thread = run.step();
        run.add(Event.of(thread, Event.Kind.READ_HEAD, head));
        return head;
    }

    @Override
    public void setHead(long head) {
        Memory.checkHead(head, numBlocks());
        int thread = run.step();
        this.head = head;
        run.add(Event.of(thread, Event.Kind.WRITE_HEAD, head));
    }

    @Override
    public boolean compareAndSetHead(long seen, long wanted) {
        Memory.checkHead(wanted, numBlocks());
        int thread = run.step();
        long found = head;
        run.add(new Event(thread, Event.Kind.SWAP_HEAD, seen, wanted, found));
        if (found == seen) {
            head = wanted;
        }
        return found == seen;
    }

    @Override
    public int below(int block) {
        Memory.checkBlock(block, numBlocks(), "below(" + block + ")");
        int thread = run.step();
        run.add(Event.of(thread, Event.Kind.READ_BELOW, block, below[block]));
        return below[block];
    }

    @Override
    public void setBelow(int block, int below) {
        Memory.checkBelow(block, below, numBlocks());
        int thread = run.step();
        this.below[block] = below;
        run.add(Event.of(thread, Event.Kind.WRITE_BELOW, block, below));
    }
}
