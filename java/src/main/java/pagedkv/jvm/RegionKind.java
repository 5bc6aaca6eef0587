package pagedkv.jvm;

import java.util.Locale;

/** What a region holds. */
public enum RegionKind {
    EDEN, SURVIVOR, OLD, HUMONGOUS, ARCHIVE, FREE;

    /** The kind behind the letters with which the JVM marks a region in the answer to {@code VM.info}. */
    static RegionKind ofLetters(String letters) {
        return switch (letters) {
            case "E" -> EDEN;
            case "S" -> SURVIVOR;
            case "O" -> OLD;
            case "HS", "HC" -> HUMONGOUS; // where an object starts, where it continues
            case "OA", "CA" -> ARCHIVE;
            case "F" -> FREE;
            default -> throw new IllegalStateException("a kind of region that is not known here: " + letters);
        };
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
