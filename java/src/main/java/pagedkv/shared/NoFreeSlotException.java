package pagedkv.shared;

/** As many members as the pool has slots have joined it already. */
public class NoFreeSlotException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public NoFreeSlotException(String message) {
        super(message);
    }
}
