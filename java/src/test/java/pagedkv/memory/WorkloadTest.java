package pagedkv.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import pagedkv.netty.tiers.BuddyChunkAllocator;

class WorkloadTest {

    @Test
    void readsCallsSizesAndComments() {
        var workload = Workload.parse("""
                # a comment
                a A 1000   # grows below
                  a B/2 64K

                g A 2m
                f A
                a A 1G
                """);
        assertEquals(List.of(new Workload.Call("allocate", "A", 1000), new Workload.Call("allocate", "B/2", 65_536),
                new Workload.Call("grow", "A", 2 << 20), new Workload.Call("free", "A", 0),
                new Workload.Call("allocate", "A", 1 << 30)), workload.calls());
    }

    @ParameterizedTest
    @CsvSource({"x A 5, a line begins with", "a A, write a OWNER SIZE", "f A 3, write f OWNER",
        "a A 0, a size is 1 or more", "a A 1.5, a size is 1 or more", "a A -3, a size is 1 or more", "a A 999999999999G, less than 2^63",
        "a K 5, K has memory already",
        "g L 5, L has nothing to grow", "f L, L has nothing to free", "g K 4, cannot grow to less"})
    void namesTheLineThatIsWrong(String line, String reason) {
        var refusal = assertThrows(IllegalArgumentException.class, () -> Workload.parse("a K 5\n\n" + line));
        assertTrue(refusal.getMessage().startsWith("line 3, \"" + line + "\": "), refusal.getMessage());
        assertTrue(refusal.getMessage().contains(reason), refusal.getMessage());
    }

    @Test
    void eventIBelongsToCallIEvenAfterARefusal() {
        var allocator = new BuddyChunkAllocator(8, 1, 3);
        var events = WorkloadRunner.run(Workload.parse("""
                a A 8
                a B 1
                g B 2
                f B
                f A
                a B 1
                """), allocator);
        assertEquals(List.of("allocate", "allocate", "grow", "free", "free", "allocate"),
                events.stream().map(MemoryEvent::op).toList());
        assertEquals(List.of(0L, 1L, 2L, 3L, 4L, 5L), events.stream().map(MemoryEvent::step).toList());
        assertEquals("OutOfMemory", events.get(1).detail().get("error"));
        assertEquals(List.of(), events.get(1).changes());
        for (int skipped : new int[] {2, 3}) {
            assertEquals(Map.of("skipped", true), events.get(skipped).detail());
        }
        assertEquals(1, allocator.layout().pieces().size());
    }

    @Test
    void aRefusedGrowKeepsWhatThereWas() {
        var allocator = new BuddyChunkAllocator(8, 1, 3);
        var events = WorkloadRunner.run(Workload.parse("a A 4\na B 4\ng A 5\nf A\nf B"), allocator);
        assertTrue(events.get(2).refused());
        assertEquals(List.of(new Change(Change.GIVE, 0, 4, 4, "")), events.get(3).changes());
        assertEquals(List.of(), allocator.layout().pieces());
    }
}
