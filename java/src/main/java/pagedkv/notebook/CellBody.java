package pagedkv.notebook;

/** The bare statements of one cell, compiled and ready to run; they may throw anything, checked exceptions included. */
@FunctionalInterface
public interface CellBody {
    void run() throws Throwable;
}
