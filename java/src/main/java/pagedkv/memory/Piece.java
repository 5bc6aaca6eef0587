package pagedkv.memory;

/**
 * Memory in use. Of its {@code sizeBytes} the owner asked for {@code requestedBytes}; the rest is lost inside the
 * piece.
 *
 * @param held its owner has let go of it, and it is not free yet
 */
public record Piece(long address, long sizeBytes, String owner, long requestedBytes, boolean held) {

    public long end() {
        return address + sizeBytes;
    }
}
