package pagedkv.notebook;

import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

/**
 * {@code System.out} and {@code System.err} of the notebook: turns UTF-8 bytes into text for a sink, which shows it.
 *
 * <p>Text is passed on at {@link #flush()}, which a {@code PrintStream} with autoflush calls after every print, or when
 * the buffer is full. After {@code maxChars} in one cell the rest is only counted, so that a loop that prints for ever
 * does not drown the notebook; counting does not even decode.
 *
 * <p>Every method that touches the buffers holds the monitor of this object, also while the sink runs: that keeps the
 * text of different threads in order, and a monitor is given back however a thread dies, {@code Thread.stop()} included.
 * The buffer is emptied before the sink is called, so text is never passed twice. Dropped, and counted as such, are also
 * the text on which the sink threw and what the sink itself prints to this stream: no recursion, no loop.
 */
public final class CellOutput extends OutputStream {
    private static final int BUFFER_CHARS = 8192;
    private static final int BUFFER_BYTES = 8192;

    /** Where the text goes. It may be slow and may throw. */
    @FunctionalInterface
    public interface Sink {
        void write(String text);
    }

    private final Sink sink;
    private final int maxChars;
    private final CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder()
            .onMalformedInput(CodingErrorAction.REPLACE).onUnmappableCharacter(CodingErrorAction.REPLACE);
    /** Bytes not yet decoded; between calls at most the beginning of one character. */
    private final ByteBuffer bytes = ByteBuffer.allocate(BUFFER_BYTES);
    private final CharBuffer chars = CharBuffer.allocate(BUFFER_CHARS);
    private int passedChars;
    private boolean sinkRuns;
    /** Written under the monitor; volatile so that it can be read while the sink is slow. */
    private volatile long droppedChars;

    /** @param maxChars how much text (UTF-16 characters) one cell may print */
    public CellOutput(Sink sink, int maxChars) {
        this.sink = sink;
        this.maxChars = maxChars;
    }

    /** A new cell begins: it may again print {@code maxChars}. Text still buffered is passed on first. */
    public synchronized void newCell() {
        flush();
        passedChars = 0;
        droppedChars = 0;
    }

    /** How many characters were not shown since the last {@link #newCell()}. */
    public long droppedChars() {
        return droppedChars;
    }

    @Override
    public synchronized void write(int b) {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] source, int offset, int length) {
        int end = offset + length;
        int at = offset;
        while (at < end && !isFull() && !sinkRuns) {
            int count = Math.min(end - at, bytes.remaining());
            bytes.put(source, at, count);
            at += count;
            decode();
        }
        if (at < end) {
            skip(source, at, end);
        }
    }

    @Override
    public synchronized void flush() {
        if (sinkRuns || chars.position() == 0) {
            return;
        }
        String text = chars.flip().toString();
        chars.clear();
        int shown = charsToShow(text);
        drop(text.length() - shown);
        passedChars = shown < text.length() ? maxChars : passedChars + shown;
        if (shown > 0) {
            pass(text.substring(0, shown));
        }
    }

    /** Also forgets the beginning of a character whose end is among the skipped bytes. */
    private void skip(byte[] source, int start, int end) {
        if (!sinkRuns) {
            bytes.clear();
        }
        drop(charsIn(source, start, end));
    }

    private boolean isFull() {
        return passedChars >= maxChars;
    }

    private void drop(long count) {
        droppedChars += count;
    }

    private void decode() {
        bytes.flip();
        while (decoder.decode(bytes, chars, false).isOverflow()) {
            makeRoom();
        }
        bytes.compact();
    }

    private void makeRoom() {
        flush();
        chars.clear();
    }

    /** As much as the cell may still print, without cutting a surrogate pair in two. */
    private int charsToShow(String text) {
        int allowed = Math.min(text.length(), maxChars - passedChars);
        boolean cutsPair = allowed > 0 && allowed < text.length() && Character.isHighSurrogate(text.charAt(allowed - 1));
        return cutsPair ? allowed - 1 : allowed;
    }

    private void pass(String text) {
        try {
            sinkRuns = true;
            sink.write(text);
        } catch (RuntimeException e) {
            drop(text.length());
        } finally {
            sinkRuns = false;
        }
    }

    /** How many UTF-16 characters well-formed UTF-8 bytes stand for: one per lead byte, two if it leads four bytes. */
    private static long charsIn(byte[] source, int start, int end) {
        long count = 0;
        for (int i = start; i < end; i++) {
            int b = source[i] & 0xFF;
            if (b < 0x80 || b >= 0xC0) {
                count += b >= 0xF0 ? 2 : 1;
            }
        }
        return count;
    }
}
