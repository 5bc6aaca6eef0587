package pagedkv.notebook;

/** How running Java answered to being stopped. */
public enum StopResult {
    /** It ended by itself or after {@link Thread#interrupt()}. */
    INTERRUPTED,
    /** It ended after {@code Thread.stop()}, which newer JDKs no longer have. */
    STOPPED,
    /** It runs on; only a new kernel ends it. */
    STILL_RUNNING
}
