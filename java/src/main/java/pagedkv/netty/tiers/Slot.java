package pagedkv.netty.tiers;

/**
 * Where one piece lies (Netty packs this into a {@code long}, the handle).
 *
 * @param chunk null for a huge one
 * @param node the node of the chunk's tree: the run itself, or the page that the element is in
 * @param subpage the page cut into elements; null for a run and for a huge piece
 * @param element the element's index in the page
 */
record Slot(Chunk chunk, int node, Subpage subpage, int element, long address, long sizeBytes) {

    boolean isHuge() {
        return chunk == null;
    }
}
