package pagedkv.notebook;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * The imports that every cell has without asking.
 *
 * <p>They are imports on demand, so by Java's own rules the learner's types and a cell's single imports win over them.
 * Java would call a name ambiguous that comes both from here and from an import on demand in the cell
 * ({@code java.awt.*} and {@code java.util.*} both have List); the cell shall win there too, so such a name is imported
 * singly from the cell's package.
 */
final class DefaultImports {
    private static final List<String> JDK_PACKAGES = List.of("java.util", "java.util.function", "java.util.stream");
    private static final List<String> PROJECT_PACKAGES = List.of("pagedkv.pool", "pagedkv.exercise");

    private final Javac javac;
    private final List<String> packages;
    private Set<String> names;

    DefaultImports(Javac javac) {
        this.javac = javac;
        this.packages = Stream.concat(JDK_PACKAGES.stream(), PROJECT_PACKAGES.stream().filter(javac::classPathHas)).toList();
    }

    /** The text to put before a cell's own imports. */
    String linesBefore(List<Piece> imports, Set<String> learnersTypes) {
        StringBuilder lines = new StringBuilder();
        packages.forEach(each -> lines.append("import ").append(each).append(".*; "));
        for (Piece each : imports) {
            if (each.name().endsWith(".*")) {
                String from = each.name().substring(0, each.name().length() - 2);
                clashes(from, learnersTypes).forEach(
                        name -> lines.append("import ").append(from).append('.').append(name).append("; "));
            }
        }
        return lines.toString();
    }

    private Set<String> clashes(String cellsPackage, Set<String> learnersTypes) {
        if (packages.contains(cellsPackage)) {
            return Set.of();
        }
        Set<String> clashes = new TreeSet<>(javac.publicTypesIn(List.of(cellsPackage)));
        clashes.retainAll(names());
        clashes.removeAll(learnersTypes);
        return clashes;
    }

    private Set<String> names() {
        if (names == null) {
            names = new HashSet<>(javac.publicTypesIn(packages));
        }
        return names;
    }
}
