/**
 * Benchmarks in JVMs of their own, one for each set of parameters, by JMH.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>pair</b>: one block allocated, written to and released again;</li>
 *   <li><b>batch</b>: blocks that are allocated before the first of them is released;</li>
 *   <li><b>sample</b>: pairs per second, all threads together, in one measured iteration.</li>
 * </ul>
 *
 * <p>Not part of the normal build: {@code mvn -Pbench package} makes {@code target/bench}.
 */
package pagedkv.bench;
