/**
 * What CRIU's image files hold, for people and for schedulers to look at: the processes of a {@link
 * dev.gpuprocess.dumped.DumpedTree} with their threads, memory and open files. Immutable. Nothing
 * here is needed for a restore.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.dumped;
