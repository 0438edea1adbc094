/**
 * The room that a process needs on the GPUs to be restored: what it held, what is free, and what
 * other restores have reserved.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.room;
