package pagedkv.notebook;

import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.Set;

/** A cell that typed types, and which of them are alive: not yet redefined by a later cell. */
record TypedCell(SplitCell cell, Set<String> live) {
    TypedCell without(Collection<String> redefined) {
        Set<String> rest = new LinkedHashSet<>(live);
        rest.removeAll(redefined);
        return new TypedCell(cell, rest);
    }
}
