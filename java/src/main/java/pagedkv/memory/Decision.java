package pagedkv.memory;

import java.util.List;

/**
 * How an allocator came to its answer.
 *
 * @param askedBytes the request
 * @param roundedBytes what the allocator's rules made of it
 * @param looks the candidates in order: the first {@link #MOST_LOOKS}, and always the chosen one
 * @param numLooks how many there were
 * @param notes what else was decided, in short sentences
 */
public record Decision(long askedBytes, long roundedBytes, List<Look> looks, int numLooks, List<String> notes) {

    public static final int MOST_LOOKS = 12;

    public Decision {
        looks = List.copyOf(looks);
        notes = List.copyOf(notes);
    }
}
