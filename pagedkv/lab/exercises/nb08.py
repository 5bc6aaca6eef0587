"""The exercises of notebook 08: many workers, one pool. Threads in Java, then processes."""

from typing import Any

from pagedkv.lab.grading import Exercise


def with_a_lock(stack: Any) -> str:
    """08.1: no schedule loses a block."""
    from pagedkv.lab.workers_stack_trial import try_stack_with_lock
    return try_stack_with_lock(stack)


def with_compare_and_set(stack: Any) -> str:
    """08.2: the same, and no thread ever waits for another one."""
    from pagedkv.lab.workers_stack_trial import try_stack_without_lock
    return try_stack_without_lock(stack)


def with_a_tag(stack: Any) -> str:
    """08.3: the same where a block comes back to the top while a thread is in the middle of a pop."""
    from pagedkv.lab.workers_stack_trial import try_tagged_stack
    return try_tagged_stack(stack)


def evicts_without_deadlock(evictor: Any) -> str:
    """08.4: the schedule that is known to deadlock goes well, and many requests under load come to an end."""
    from pagedkv.lab.workers_evictor import try_evictor
    return try_evictor(evictor)


def taken_over(take_over: Any) -> str:
    """08.5: a reference, if it is still the same hand-out; none, and no error, if it is too late."""
    from pagedkv.lab.workers_handover import try_take_over
    return try_take_over(take_over)


def taken_back(take_back: Any) -> str:
    """08.6: what a dead member held goes out of words and counts, and what nobody holds any more is free."""
    from pagedkv.lab.workers_take_back import try_take_back
    return try_take_back(take_back)


EXERCISES = (
    Exercise("08.1", "A lock", 5, (
        "Which steps of pop() must nobody come between? And which of push()?",
        "A pop and a push break each other, too. So it has to be one lock for both.",
        "Write synchronized before int pop() and before void push(int block). Both lock the same object: this stack."),
        with_a_lock),
    Exercise("08.2", "Compare and set", 10, (
        "Do all the work on what you have read. Then let the last step find out whether it was still true.",
        "compareAndSetHead(seen, wanted) says false if somebody was quicker. What you have worked out is then out of "
        "date: begin again, with a new head().",
        "pop: in a loop, long seen = head(), int top = (int) seen, return NONE if that is NONE, and return top once "
        "compareAndSetHead(seen, below(top)) says true. push: in a loop, read the head, setBelow(block, head), then try "
        "to set the head to block."), with_compare_and_set),
    Exercise("08.3", "A tag", 10, (
        "The head has 64 bits, and a block needs 32 of them. What could the others hold, so that no head ever comes "
        "back?",
        "A counter: with each change of the head it is one more than before. A compare-and-set compares both at once.",
        "long next = ((seen >>> 32) + 1) << 32 | (block & 0xFFFF_FFFFL). Without the mask a NONE, which is −1, would "
        "overwrite the tag."), with_a_tag),
    Exercise("08.4", "Evict without a deadlock", 5, (
        "whenShort runs under the pool's lock. What must a thread that holds a lock never wait for?",
        "victim.mark() takes no lock and waits for nobody. Who can evict the victim later, and where does it hold no "
        "lock?",
        "whenShort: victim.mark(). betweenSteps: if (request.isMarked()) request.evict()."), evicts_without_deadlock),
    Exercise("08.5", "Take over a block", 5, (
        "Which of the pool's calls gives you a reference to a block that somebody else holds? What does it do if "
        "nobody holds it any more?",
        "Between a look and the retain after it, anything may happen. retain can compare the generation itself, in the "
        "same step in which it takes the reference.",
        "pool.retain([block], generations=[generation]) raises UseAfterFree if the block is free or was handed out "
        "again. try … except UseAfterFree: return False."), taken_over),
    Exercise("08.6", "Take back what a dead member held", 10, (
        "The word is the truth: only a block whose word has the slot's bit was held. What is left of the word when "
        "that bit is gone, and when is the block free?",
        "words[block] >> slot & 1 is the question. new = words[block] & ~(1 << slot), and without CACHED too: a block "
        "in a local cache has no other holder. CONTENT and generation stay.",
        "If no bit of new & HOLDERS is left: words[block] = new first, then free(block). In every case, holder or not: "
        "counts[slot][block] = 0, since a member killed in the middle leaves a count without a bit."), taken_back),
)
