/**
 * What CRIU's image files contain, for operators and schedulers: the processes of a {@link
 * dev.gpuprocess.dumped.DumpedTree} with their threads, memory and open files. Immutable. Nothing
 * here is needed for a restore.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.dumped;
