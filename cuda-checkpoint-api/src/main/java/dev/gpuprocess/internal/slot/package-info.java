/** The queue of a slot: which process gets its GPUs next, and the record of that on disk. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.slot;
