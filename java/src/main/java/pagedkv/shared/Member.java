package pagedkv.shared;

/**
 * What the slot table says about a slot that is in use, and whether its owner lives.
 *
 * @param pid the process that joined, for people to read
 * @param language in which it is written, such as Java
 */
public record Member(int slot, long pid, String language, boolean alive) {

    @Override
    public String toString() {
        return "slot %d: process %d (%s%s)".formatted(slot, pid, language, alive ? "" : ", dead");
    }
}
