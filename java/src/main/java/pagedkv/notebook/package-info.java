/**
 * Java typed in a notebook cell: split, compile, load, run, stop, and show what it prints.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>cell</b>: the text under one {@code %%java} line, any mix of imports, types, methods and statements;</li>
 *   <li><b>piece</b>: one stretch of a cell that is of one kind ({@link pagedkv.notebook.Piece});</li>
 *   <li><b>unit</b>: a source file made from the pieces of one cell for javac ({@link pagedkv.notebook.CellUnit});</li>
 *   <li><b>generation</b>: all types alive together in one class loader ({@link pagedkv.notebook.Generation});</li>
 *   <li><b>body</b>: the bare statements of one cell, compiled ({@link pagedkv.notebook.CellBody}).</li>
 * </ul>
 *
 * <p>The way of a cell: {@code CellSource} → {@code CellSplitter} → {@code SplitCell} → {@code UnitWriter} →
 * {@code Javac} → {@code Generation} → {@code CompiledCell}, whose body a {@code CellRun} runs.
 */
package pagedkv.notebook;
