package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class DefaultImportsTest {
    private final Notebook notebook = new Notebook();

    @Test
    void collectionsFunctionsAndStreamsNeedNoImport() {
        assertEquals("[2, 4]\n", notebook.run("Function<Integer, Integer> twice = n -> 2 * n;\n"
                + "System.out.println(Stream.of(1, 2).map(twice).collect(Collectors.toList()));"));
    }

    @Test
    void aSingleImportWins() {
        assertEquals("java.awt.List\n", notebook.run("import java.awt.List;\nSystem.out.println(List.class.getName());"));
    }

    @Test
    void anImportOnDemandWins() {
        assertEquals("java.awt.List java.util.Map\n", notebook.run(
                "import java.awt.*;\nSystem.out.println(List.class.getName() + \" \" + Map.class.getName());"));
    }

    @Test
    void theLearnersTypesWinOverBoth() {
        notebook.accept("class List { }");
        assertEquals("List\n", notebook.run("System.out.println(List.class.getName());"));
        assertEquals("List\n", notebook.run("import java.awt.*; System.out.println(List.class.getName());"));
    }

    @Test
    void aTypedNameThatHidesALibraryTypeOfAnEarlierCellIsRefused() {
        notebook.accept("class Box { List<String> names = new ArrayList<>(); }");
        String message = notebook.firstError("class List { }").message();
        assertEquals("Box, typed in an earlier cell, would no longer compile with List: type List does not take parameters",
                message.lines().findFirst().orElseThrow());
    }

    @Test
    void staticImportsWork() {
        assertEquals("3\n", notebook.run("import static java.lang.Math.*;\nSystem.out.println(max(1, 3));"));
    }
}
