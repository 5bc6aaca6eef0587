package pagedkv.prefix;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** A hash of a block that depends on all tokens up to its end: of the hash before it, and of its own tokens. */
@FunctionalInterface
public interface ChainHash {

    /** The hash before the first block. */
    long SEED = 0;

    long hash(long parent, int[] tokens);

    /**
     * What {@code String.hashCode} does: {@code 31 * hash + next}, in 32 bits. Anybody can find two inputs with the
     * same hash: add 1 to one token and take 31 from the next, and "Aa" becomes "BB".
     */
    static ChainHash likeString() {
        return (parent, tokens) -> {
            int hash = (int) parent;
            for (int token : tokens) {
                hash = 31 * hash + token;
            }
            return hash;
        };
    }

    /**
     * The first 64 bits of SHA-256. In full length, 256 bits, nobody has found two inputs with the same hash. One
     * thread at a time.
     */
    static ChainHash sha256() {
        MessageDigest digest;
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
        return (parent, tokens) -> {
            ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES + Integer.BYTES * tokens.length).putLong(parent);
            bytes.asIntBuffer().put(tokens);
            return ByteBuffer.wrap(digest.digest(bytes.array())).getLong();
        };
    }

    /**
     * The same hash, cut to its lowest bits.
     *
     * @param bits 1 to 64
     */
    default ChainHash cutTo(int bits) {
        if (bits < 1 || bits > Long.SIZE) {
            throw new IllegalArgumentException("a hash has 1 to 64 bits here, not " + bits);
        }
        return (parent, tokens) -> hash(parent, tokens) & -1L >>> Long.SIZE - bits;
    }
}
