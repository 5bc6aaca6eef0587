package pagedkv.interleaving;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import pagedkv.interleaving.Finding.Kind;

class ExplorerTest {

    private static final Program EACH_ONE = Program.of(3, "pop a, push a", "pop a, push a");
    private static final Program PUSHES = Program.of(1, "push 1", "push 2");
    private static final Program LAST_ONE = Program.of(1, "pop a", "pop a");
    private static final Program ABA = Program.of(3, "pop a", "pop a, pop b, push a");

    private static Explorer.Result explore(Class<? extends SharedStack> type, Program... programs) throws Exception {
        return Explorer.explore(type, 150, programs);
    }

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Monitor.class, Stacks.Locked.class, Stacks.Tagged.class})
    void rightOnesPass(Class<? extends SharedStack> type) throws Exception {
        var result = explore(type, EACH_ONE, PUSHES, LAST_ONE, ABA);
        assertNull(result.finding(), result::story);
        assertNull(result.trace());
        assertTrue(result.schedules() > 100, "only " + result.schedules());
    }

    @Test
    void aLockWithoutAnOwnerIsSeen() throws Exception {
        assertNull(Explorer.explore(Stacks.WithSemaphore.class, 12, EACH_ONE).finding());
    }

    @Test
    void compareAndSetWithoutATagSurvivesUntilBlocksComeBack() throws Exception {
        assertTrue(explore(Stacks.Untagged.class, EACH_ONE, PUSHES, LAST_ONE).passed());
        var result = explore(Stacks.Untagged.class, ABA);
        assertEquals(Kind.BLOCKS, result.finding().kind());
        assertEquals("block 1 is on the stack although somebody holds it", result.finding().yours());
        assertTrue(result.story().endsWith("A  compare-and-set head 2 → 1: done\nA  pop() returns 2"), result::story);
    }

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Bare.class, Stacks.OnlyPopLocked.class, Stacks.TwoLocks.class, Stacks.WithoutRetry.class})
    void blocksAreLostOrInTwoPlaces(Class<? extends SharedStack> type) throws Exception {
        assertEquals(Kind.BLOCKS, explore(type, EACH_ONE, PUSHES).finding().kind());
    }

    @Test
    void anEmptyAnswerMustBeTrueAtSomeMoment() throws Exception {
        var finding = explore(Stacks.GivesUp.class, Program.of(2, "pop a", "pop a")).finding();
        assertEquals(Kind.RETURNED, finding.kind());
        assertTrue(finding.yours().contains("NONE"));
    }

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Deadlocking.class, Stacks.DeadlockingLocks.class})
    void threadsThatWaitForEachOther(Class<? extends SharedStack> type) throws Exception {
        var result = explore(type, EACH_ONE);
        assertEquals(Kind.STUCK, result.finding().kind());
        assertTrue(result.story().contains("has to wait for a lock that"), result::story);
    }

    @Test
    void aLoopWithoutAnEnd() throws Exception {
        assertEquals(Kind.ENDLESS, explore(Stacks.StaleRetry.class, EACH_ONE).finding().kind());
    }

    @Test
    void whatItThrows() throws Exception {
        var finding = explore(Stacks.Throwing.class, LAST_ONE).finding();
        assertEquals(Kind.THREW, finding.kind());
        assertTrue(finding.thrown() instanceof IllegalStateException);
    }

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Untagged.class, Stacks.Tagged.class})
    void withoutLocksNobodyWaitsForOneThatIsStopped(Class<? extends SharedStack> type) throws Exception {
        assertTrue(Explorer.stopEverywhere(type, EACH_ONE, PUSHES).passed());
    }

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Monitor.class, Stacks.Locked.class})
    void withALockTheyDo(Class<? extends SharedStack> type) throws Exception {
        var finding = Explorer.stopEverywhere(type, EACH_ONE).finding();
        assertEquals(Kind.STUCK, finding.kind());
        assertEquals("B cannot finish while A is stopped", finding.yours());
    }

    @Test
    void whoIsDisturbedGoesOnTrying() throws Exception {
        var programs = new Program[] {Program.of(2, "pop a", "pop a, push a, pop b, push b"),
            Program.of(2, "push 2", "pop a, push a, pop b, push b")};
        for (var type : List.of(Stacks.Untagged.class, Stacks.Tagged.class)) {
            var result = Explorer.disturb(type, programs);
            assertTrue(result.passed(), result::story);
            assertEquals(10, result.schedules()); // for each program: undisturbed, and once more after each call
        }
        var result = Explorer.disturb(Stacks.GivesUp.class, programs);
        assertEquals(Kind.RETURNED, result.finding().kind());
        assertTrue(result.story().contains("refused, it is"), result::story);
    }

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Bare.class, Stacks.TwoLocks.class, Stacks.Deadlocking.class})
    void theSameOnEveryRun(Class<? extends SharedStack> type) throws Exception {
        var first = explore(type, EACH_ONE);
        var second = explore(type, EACH_ONE);
        assertEquals(first.story(), second.story());
        assertEquals(first.trace(), second.trace());
    }

    @Test
    @SuppressWarnings("unchecked")
    void theTraceShowsWhereEachBlockIs() throws Exception {
        var trace = explore(Stacks.Untagged.class, ABA).trace();
        var steps = (List<Map<String, Object>>) trace.get("steps");
        assertEquals(Map.of("stack", List.of(2, 1, 0), "A holds", List.of(), "B holds", List.of(), "lost", List.of()),
                steps.get(0).get("blocks"));
        var last = steps.get(steps.size() - 1);
        assertEquals(Map.of("stack", List.of(1, 0), "A holds", List.of(2), "B holds", List.of(1), "lost", List.of()),
                last.get("blocks"));
        var marked = steps.stream().filter(step -> step.get("mark") != null).toList();
        assertEquals(1, marked.size());
        assertEquals("compare-and-set head 2 → 1: done", marked.get(0).get("text"));
        assertEquals("block 1 is on the stack although somebody holds it", trace.get("result"));
        assertEquals(List.of("A", "B"), trace.get("actors"));
    }

    /** Two that wait for each other's monitor cannot be ended from outside, and stay; all others can. */
    @ParameterizedTest
    @ValueSource(classes = {Stacks.DeadlockingLocks.class, Stacks.StaleRetry.class, Stacks.Bare.class})
    void noThreadIsLeft(Class<? extends SharedStack> type) throws Exception {
        var before = programThreads();
        assertNotNull(explore(type, EACH_ONE).finding());
        var after = programThreads();
        after.removeAll(before);
        assertEquals(Set.of(), after);
    }

    private static Set<Thread> programThreads() {
        return Thread.getAllStackTraces().keySet().stream().filter(ProgramThread.class::isInstance)
                .collect(Collectors.toSet());
    }

    @ParameterizedTest
    @ValueSource(strings = {"pop", "push a", "peek a", "push 0"})
    void programsThatCannotBe(String text) {
        assertThrows(IllegalArgumentException.class, () -> Program.of(2, text));
    }
}
