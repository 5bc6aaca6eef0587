package pagedkv.netty.tiers;

/** Hears which nodes a search looks at, in order, and what it makes of each. */
@FunctionalInterface
interface NodeVisitor {

    NodeVisitor NONE = (node, verdict) -> {
    };

    void visit(int node, String verdict);
}
