package pagedkv.notebook;

import java.util.Collection;
import java.util.Set;

/**
 * The names of what is generated around a cell's statements: {@code Cell.run()}, and {@code CellMethods} for its
 * methods. A number makes them differ from the learner's names and from earlier bodies in the same class loader.
 */
record BodyNames(String bodyClass, String methodsClass, String runMethod) {
    static BodyNames avoiding(Set<String> takenClasses, Collection<String> takenMethods) {
        int number = 1;
        while (takenClasses.contains(numbered("Cell", number)) || takenClasses.contains(numbered("CellMethods", number))) {
            number++;
        }
        int run = 1;
        while (takenMethods.contains(numbered("run", run))) {
            run++;
        }
        return new BodyNames(numbered("Cell", number), numbered("CellMethods", number), numbered("run", run));
    }

    private static String numbered(String name, int number) {
        return number == 1 ? name : name + number;
    }
}
