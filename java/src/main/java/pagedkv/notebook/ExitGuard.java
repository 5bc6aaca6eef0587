package pagedkv.notebook;

import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MemberReferenceTree;
import com.sun.source.tree.MethodInvocationTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreePath;
import com.sun.source.util.TreePathScanner;
import com.sun.source.util.Trees;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import javax.lang.model.element.Element;
import javax.lang.model.element.TypeElement;

/**
 * Finds the calls that would end the kernel together with the notebook: {@code System.exit}, {@code Runtime.exit},
 * {@code Runtime.halt}.
 *
 * <p>It asks the compiler which method a call or method reference means, so a static import is found and a comment, a
 * string or the learner's own {@code exit()} is not. A call by reflection is not found: this is a guard against a slip,
 * not a sandbox.
 */
final class ExitGuard extends TreePathScanner<Void, CompilationUnitTree> {
    private static final Map<String, Set<String>> ENDING = Map.of(
            "java.lang.System", Set.of("exit"),
            "java.lang.Runtime", Set.of("exit", "halt"));

    private final Trees trees;
    private final BiConsumer<Long, String> found;

    /** {@code found} is given the position in the unit and the message. */
    ExitGuard(JavacTask analyzed, BiConsumer<Long, String> found) {
        this.trees = Trees.instance(analyzed);
        this.found = found;
    }

    @Override
    public Void visitMethodInvocation(MethodInvocationTree call, CompilationUnitTree unit) {
        check(new TreePath(getCurrentPath(), call.getMethodSelect()), unit);
        return super.visitMethodInvocation(call, unit);
    }

    @Override
    public Void visitMemberReference(MemberReferenceTree reference, CompilationUnitTree unit) {
        check(getCurrentPath(), unit);
        return super.visitMemberReference(reference, unit);
    }

    private void check(TreePath path, CompilationUnitTree unit) {
        Element method = trees.getElement(path);
        if (method == null || !(method.getEnclosingElement() instanceof TypeElement owner)) {
            return;
        }
        String name = method.getSimpleName().toString();
        if (ENDING.getOrDefault(owner.getQualifiedName().toString(), Set.of()).contains(name)) {
            Tree place = path.getLeaf();
            found.accept(trees.getSourcePositions().getStartPosition(unit, place), owner.getSimpleName() + "." + name
                    + " would end the notebook's kernel: throw an exception instead");
        }
    }
}
