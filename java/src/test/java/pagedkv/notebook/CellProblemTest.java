package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class CellProblemTest {
    @Test
    void theCaretStandsUnderTheColumn() {
        assertEquals("error in line 4: ';' expected\n    int x = 5\n             ^",
                new CellProblem("error", 4, 10, "';' expected", "int x = 5").toString());
    }

    @Test
    void tabsOfTheLineAreRepeatedBeforeTheCaret() {
        assertEquals("warning in line 2: m\n    \ta\tb\n    \t \t^", new CellProblem("warning", 2, 4, "m", "\ta\tb").toString());
    }

    @Test
    void aColumnBehindTheLineIsReached() {
        assertEquals("error in line 2: m\n    a\n       ^", new CellProblem("error", 2, 4, "m", "a").toString());
    }
}
