package pagedkv.bench;

import java.util.Collection;
import java.util.Map;

/** Maps, lists, numbers and strings as JSON text. */
final class Json {

    private Json() {
    }

    static String of(Object value) {
        return text(value, "\n");
    }

    private static String text(Object value, String newLine) {
        if (value instanceof Map<?, ?> map) {
            var parts = map.entrySet().stream()
                    .map(entry -> quoted(entry.getKey().toString()) + ": " + text(entry.getValue(), newLine + " "));
            return "{" + newLine + " " + String.join("," + newLine + " ", parts.toList()) + newLine + "}";
        }
        if (value instanceof Collection<?> list) {
            boolean nested = list.stream().anyMatch(Map.class::isInstance);
            var parts = list.stream().map(part -> text(part, nested ? newLine + " " : newLine)).toList();
            return nested ? "[" + newLine + " " + String.join("," + newLine + " ", parts) + newLine + "]"
                    : "[" + String.join(", ", parts) + "]";
        }
        if (value instanceof Double number && (number.isNaN() || number.isInfinite())) {
            return "null";
        }
        return value instanceof String string ? quoted(string) : String.valueOf(value);
    }

    private static String quoted(String string) {
        return '"' + string.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
    }
}
