package pagedkv.notebook;

import com.sun.source.util.JavacTask;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;

/**
 * Notes about members without an access modifier: Python, through JPype, sees only public ones.
 *
 * <p>A constructor that the compiler supplies counts too: it is public only if its class is, so without the note
 * {@code class Counter { public int next() … }} would be a class that Python cannot make an object of.
 */
final class VisibilityNotes {
    private static final Set<ElementKind> MEMBERS = EnumSet.of(ElementKind.METHOD, ElementKind.FIELD, ElementKind.CONSTRUCTOR);
    private static final Set<Modifier> ACCESS = EnumSet.of(Modifier.PUBLIC, Modifier.PROTECTED, Modifier.PRIVATE);

    private VisibilityNotes() {
    }

    /** At most one note per type, in the order typed. */
    static List<String> about(JavacTask analyzed, List<String> typeNames) {
        return typeNames.stream().map(analyzed.getElements()::getTypeElement).filter(Objects::nonNull)
                .map(VisibilityNotes::noteAbout).filter(note -> !note.isEmpty()).toList();
    }

    private static String noteAbout(TypeElement type) {
        List<String> hidden = type.getEnclosedElements().stream().filter(member -> isHidden(type, member))
                .map(VisibilityNotes::nameOf).distinct().toList();
        if (hidden.isEmpty()) {
            return "";
        }
        return type.getSimpleName() + ": not public, so Python cannot see " + String.join(", ", hidden);
    }

    private static boolean isHidden(TypeElement type, Element member) {
        boolean uncallable = member.getKind() == ElementKind.CONSTRUCTOR && type.getModifiers().contains(Modifier.ABSTRACT);
        return MEMBERS.contains(member.getKind()) && Collections.disjoint(member.getModifiers(), ACCESS) && !uncallable;
    }

    private static String nameOf(Element member) {
        return member.getKind() == ElementKind.CONSTRUCTOR ? "constructor" : member.getSimpleName().toString();
    }
}
