package pagedkv.memory;

import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Events and layouts as JSON, so that they reach another language in one call, however many there are.
 *
 * <p>A record is an array of its components in order, a list an array, a map an object. Nothing here reads JSON.
 */
public final class MemoryJson {

    private MemoryJson() {
    }

    public static String of(MemoryEvent event) {
        var out = new StringBuilder();
        write(out, event);
        return out.toString();
    }

    public static String of(List<MemoryEvent> events) {
        var out = new StringBuilder();
        write(out, events);
        return out.toString();
    }

    public static String of(Layout layout) {
        var out = new StringBuilder();
        write(out, layout);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof MemoryEvent event) {
            array(out, event.step(), event.op(), event.owner(), event.sizeBytes(), event.changes(), event.detail());
        } else if (value instanceof Change change) {
            array(out, change.kind(), change.address(), change.sizeBytes(), change.requestedBytes(), change.label());
        } else if (value instanceof Decision decision) {
            array(out, decision.askedBytes(), decision.roundedBytes(), decision.looks(), decision.numLooks(),
                    decision.notes());
        } else if (value instanceof Look look) {
            array(out, look.what(), look.address(), look.sizeBytes(), look.verdict());
        } else if (value instanceof Layout layout) {
            array(out, layout.segments(), layout.pieces());
        } else if (value instanceof Segment segment) {
            array(out, segment.address(), segment.sizeBytes(), segment.label());
        } else if (value instanceof Piece piece) {
            array(out, piece.address(), piece.sizeBytes(), piece.owner(), piece.requestedBytes(), piece.held());
        } else if (value instanceof List<?> list) {
            array(out, list.toArray());
        } else if (value instanceof Map<?, ?> map) {
            object(out, map);
        } else {
            string(out, value.toString());
        }
    }

    private static void array(StringBuilder out, Object... values) {
        out.append('[');
        for (int i = 0; i < values.length; i++) {
            if (i > 0) {
                out.append(',');
            }
            write(out, values[i]);
        }
        out.append(']');
    }

    private static void object(StringBuilder out, Map<?, ?> map) {
        out.append('{');
        for (Iterator<? extends Map.Entry<?, ?>> entries = map.entrySet().iterator(); entries.hasNext();) {
            var entry = entries.next();
            string(out, entry.getKey().toString());
            out.append(':');
            write(out, entry.getValue());
            if (entries.hasNext()) {
                out.append(',');
            }
        }
        out.append('}');
    }

    private static void string(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) { // half a pair would not survive as UTF-8
                out.append("\\u%04x".formatted((int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
