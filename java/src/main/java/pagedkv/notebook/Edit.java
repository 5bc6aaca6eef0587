package pagedkv.notebook;

/** A change made to a piece when it is copied into a unit: at an offset of the cell, remove characters, then insert. */
record Edit(int offset, int removed, String inserted) {
    static Edit insert(int offset, String text) {
        return new Edit(offset, 0, text);
    }
}
