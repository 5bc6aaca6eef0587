package pagedkv.shared;

import java.util.List;
import pagedkv.pool.PoolException;

/** Somebody wrote in front of a block or behind it; seen in guard mode only. */
public class BlockOverrunException extends PoolException {

    private static final long serialVersionUID = 1L;

    private final transient List<Overrun> overruns;

    public BlockOverrunException(String message, List<Overrun> overruns) {
        super(message);
        this.overruns = List.copyOf(overruns);
    }

    /** Where. */
    public List<Overrun> overruns() {
        return overruns;
    }
}
