/**
 * The GPU memory that a process needs to be restored: what it held, what is free, and what other
 * restores have reserved.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.reservation;
