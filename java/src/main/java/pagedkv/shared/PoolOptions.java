package pagedkv.shared;

/**
 * How a pool is created and joined: {@code PoolOptions.DEFAULT.withCacheBlocks(16)}.
 *
 * @param tokensPerBlock when creating: how many tokens a block is the keys and values of, for the prefix index; 0: the
 *     pool has none. A joined pool has what its creator gave it
 * @param guard look for writes beyond a block (see {@link Guards}); settled when the pool is created
 * @param replace when creating: remove a pool of this name first, if there is one. Its members go on with the old one
 * @param cacheBlocks how many freed blocks this member keeps for itself, 0 to 1024; they are not free for others
 * @param waitSeconds when joining: how long to wait for a pool that is not ready, or for a slot
 */
public record PoolOptions(int tokensPerBlock, boolean guard, boolean replace, int cacheBlocks, double waitSeconds) {

    public static final int MOST_CACHE_BLOCKS = 1024;
    public static final PoolOptions DEFAULT = new PoolOptions(0, false, false, 0, 1.0);

    public PoolOptions {
        if (tokensPerBlock < 0 || tokensPerBlock > Layout.MOST_TOKENS_PER_BLOCK) {
            throw new IllegalArgumentException("tokensPerBlock is 0 (no prefix index) to %d, got %d"
                    .formatted(Layout.MOST_TOKENS_PER_BLOCK, tokensPerBlock));
        }
        if (cacheBlocks < 0 || cacheBlocks > MOST_CACHE_BLOCKS) {
            throw new IllegalArgumentException(("cacheBlocks is 0 to %d, got %d: what one member keeps for itself is "
                    + "not free for the others").formatted(MOST_CACHE_BLOCKS, cacheBlocks));
        }
        if (!(waitSeconds >= 0)) {
            throw new IllegalArgumentException("waitSeconds must be 0 or more, got " + waitSeconds);
        }
    }

    public PoolOptions withTokensPerBlock(int tokens) {
        return new PoolOptions(tokens, guard, replace, cacheBlocks, waitSeconds);
    }

    public PoolOptions withGuard() {
        return new PoolOptions(tokensPerBlock, true, replace, cacheBlocks, waitSeconds);
    }

    public PoolOptions withReplace() {
        return new PoolOptions(tokensPerBlock, guard, true, cacheBlocks, waitSeconds);
    }

    public PoolOptions withCacheBlocks(int blocks) {
        return new PoolOptions(tokensPerBlock, guard, replace, blocks, waitSeconds);
    }

    public PoolOptions withWaitSeconds(double seconds) {
        return new PoolOptions(tokensPerBlock, guard, replace, cacheBlocks, seconds);
    }
}
