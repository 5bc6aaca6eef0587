package pagedkv.notebook;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * All types alive together: the newest definition of each, compiled against each other and loaded by one class loader.
 *
 * <p>A class once loaded cannot be changed, and a class is bound to the others of its loader. So a cell that types a type
 * starts a new generation in which <em>every</em> type is compiled and loaded anew: those that use a redefined class
 * follow it. Objects of an older generation keep their old class; static fields start afresh. A cell of bare statements
 * starts none: it joins the current generation, and what it leaves in static fields is there for the next cell.
 *
 * @param cells      the cells that the types come from, oldest first
 * @param classFiles what was compiled with them, by binary name; later bodies are compiled against it
 */
record Generation(List<TypedCell> cells, Map<String, byte[]> classFiles, GenerationLoader loader,
                  Map<String, Class<?>> types) {

    static Generation empty(ClassLoader parent) {
        return new Generation(List.of(), Map.of(), new GenerationLoader(parent), Map.of());
    }

    /** The cells of a next generation: the types of a new cell replace those of the same name. */
    List<TypedCell> cellsWith(SplitCell cell) {
        List<String> declared = cell.namesOf(Piece.Kind.TYPE);
        List<TypedCell> next = new ArrayList<>();
        for (TypedCell earlier : cells) {
            TypedCell rest = earlier.without(declared);
            if (!rest.live().isEmpty()) {
                next.add(rest);
            }
        }
        next.add(new TypedCell(cell, new LinkedHashSet<>(declared)));
        return next;
    }

    static Generation load(List<TypedCell> cells, Map<String, byte[]> classFiles, ClassLoader parent)
            throws ClassNotFoundException {
        GenerationLoader loader = new GenerationLoader(parent);
        loader.add(classFiles);
        Map<String, Class<?>> types = new LinkedHashMap<>();
        for (String name : namesIn(cells)) {
            types.put(name, Class.forName(name, false, loader));
        }
        return new Generation(cells, classFiles, loader, Collections.unmodifiableMap(types));
    }

    static Set<String> namesIn(List<TypedCell> cells) {
        Set<String> names = new LinkedHashSet<>();
        cells.forEach(cell -> names.addAll(cell.live()));
        return names;
    }
}
