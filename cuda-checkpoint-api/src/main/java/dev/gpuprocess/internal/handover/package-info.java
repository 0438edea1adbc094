/**
 * Hands large private memory of a process over to a file of an image before CRIU dumps it, so that
 * CRIU need not: the memory is copied into the file, and the file is mapped in its place.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.handover;
