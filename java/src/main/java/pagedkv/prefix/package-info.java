/**
 * Finding blocks by what they hold, so that a new prompt reuses what an earlier one computed.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>prompt</b>: the tokens of a request, as ints;</li>
 *   <li><b>full block</b>: block size tokens of a prompt, counted from its beginning; only these are found again;</li>
 *   <li><b>chain</b>: a block's contents depend on all tokens before it, so it is known by its own tokens <em>and</em>
 *       by the block before it, which is known in the same way;</li>
 *   <li><b>hit</b>: a block that is found; the hits of a prompt always begin at its beginning;</li>
 *   <li><b>eviction</b>: a block loses its entry, because its memory is needed.</li>
 * </ul>
 *
 * <p>Three indexes do the same work ({@link PromptIndex}): {@link PrefixIndex} is right, {@link WholePromptIndex} finds
 * too little, {@link HashOnlyIndex} finds what is not there. {@link Interning} puts them beside
 * {@code String.intern}. Indexes do not count references; the pool does.
 */
package pagedkv.prefix;
