package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class CellOutputTest {
    private final List<String> passed = Collections.synchronizedList(new ArrayList<>());
    private final CellOutput output = new CellOutput(passed::add, 1000);

    private String text() {
        return String.join("", passed);
    }

    private static PrintStream printStream(CellOutput output) {
        return new PrintStream(output, true, StandardCharsets.UTF_8);
    }

    @Test
    void textIsPassedAtPrintlnAndAtFlush() {
        printStream(output).println("a");
        assertEquals("[a" + System.lineSeparator() + "]", passed.toString());
        PrintStream unhurried = new PrintStream(output, false, StandardCharsets.UTF_8);
        unhurried.print("b\n");
        assertEquals(1, passed.size());
        unhurried.flush();
        assertEquals("b\n", passed.get(1));
    }

    @Test
    void aFullBufferIsPassedWithoutFlush() {
        CellOutput wide = new CellOutput(passed::add, 100_000);
        printStream(wide).print("x".repeat(50_000));
        assertTrue(text().length() > 40_000);
        wide.flush();
        assertEquals("x".repeat(50_000), text());
    }

    @Test
    void aCharacterSplitOverTwoWritesSurvives() throws IOException {
        for (byte b : "a\u00e4\u20ac\uD83D\uDE00z".getBytes(StandardCharsets.UTF_8)) {
            output.write(b);
            output.flush();
        }
        assertEquals("a\u00e4\u20ac\uD83D\uDE00z", text());
    }

    @Test
    void charactersOnTheEdgeOfTheBufferSurvive() throws IOException {
        String long4 = "x" + "\uD83D\uDE00".repeat(20_000);
        CellOutput wide = new CellOutput(passed::add, 100_000);
        wide.write(long4.getBytes(StandardCharsets.UTF_8));
        wide.flush();
        assertEquals(long4, text());
    }

    @Test
    void bytesThatAreNotUtf8BecomeTheReplacementCharacter() throws IOException {
        output.write(new byte[] {'a', (byte) 0xFF, 'b'});
        output.flush();
        assertEquals("a\uFFFDb", text());
    }

    @Test
    void aFloodIsCutAtMaxCharsAndCounted() {
        PrintStream out = printStream(output);
        for (int i = 0; i < 10_000; i++) {
            out.print("0123456\u00e4\u20ac\n");
        }
        out.flush();
        assertEquals(1000, text().length());
        assertEquals(100_000 - 1000, output.droppedChars());
    }

    @Test
    void droppedCharactersAreCountedAsUtf16() throws IOException {
        output.write("x".repeat(1000).getBytes(StandardCharsets.UTF_8));
        output.flush();
        output.write("a\u00e4\u20ac\uD83D\uDE00".getBytes(StandardCharsets.UTF_8));
        assertEquals(5, output.droppedChars());
    }

    @Test
    void theCutSplitsNoSurrogatePair() throws IOException {
        CellOutput narrow = new CellOutput(passed::add, 4);
        narrow.write("abc\uD83D\uDE00z".getBytes(StandardCharsets.UTF_8));
        narrow.flush();
        assertEquals("abc", text());
        assertEquals(3, narrow.droppedChars());
    }

    @Test
    void aNewCellMayPrintAgain() {
        PrintStream out = printStream(output);
        out.println("x".repeat(2000));
        output.newCell();
        assertEquals(0, output.droppedChars());
        passed.clear();
        out.print("again");
        out.flush();
        assertEquals("again", text());
    }

    @Test
    void aCharacterBegunInAFloodDoesNotSpoilTheNextCell() throws IOException {
        byte[] euro = "\u20ac".getBytes(StandardCharsets.UTF_8);
        output.write("x".repeat(1000).getBytes(StandardCharsets.UTF_8));
        output.write(euro, 0, 1);
        output.flush();
        output.write(euro, 1, 2);
        output.newCell();
        passed.clear();
        output.write('a');
        output.flush();
        assertEquals("a", text());
    }

    @Test
    void textLeftOverIsPassedWhenANewCellBegins() {
        printStream(output).print("late");
        output.newCell();
        assertEquals("late", text());
    }

    @Test
    void aSinkThatThrowsLosesItsTextAndNothingElse() {
        CellOutput failing = new CellOutput(text -> {
            if (text.startsWith("bad")) {
                throw new IllegalStateException("sink");
            }
            passed.add(text);
        }, 1000);
        PrintStream out = printStream(failing);
        out.print("bad\n");
        out.print("good\n");
        assertEquals("good\n", text());
        assertEquals(4, failing.droppedChars());
        assertTrue(!out.checkError());
    }

    @Test
    void aSinkThatPrintsToItsOwnStreamDoesNotLoop() {
        PrintStream[] out = new PrintStream[1];
        CellOutput looping = new CellOutput(text -> {
            passed.add(text);
            out[0].print("echo\n");
        }, 1000);
        out[0] = printStream(looping);
        out[0].print("a\n");
        out[0].print("b\n");
        assertEquals("a\nb\n", text());
        assertEquals(10, looping.droppedChars());
    }

    @Test
    void linesOfDifferentThreadsStayWhole() throws InterruptedException {
        CellOutput wide = new CellOutput(passed::add, 10_000_000);
        PrintStream out = printStream(wide);
        List<Thread> threads = IntStream.range(0, 8).mapToObj(id -> new Thread(() -> {
            for (int i = 0; i < 500; i++) {
                out.println("thread " + id + " says \u20ac " + i);
            }
        })).toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        Set<String> lines = text().lines().collect(Collectors.toSet());
        Set<String> expected = IntStream.range(0, 4000).mapToObj(n -> "thread " + n / 500 + " says \u20ac " + n % 500)
                .collect(Collectors.toSet());
        assertEquals(expected, lines);
    }
}
