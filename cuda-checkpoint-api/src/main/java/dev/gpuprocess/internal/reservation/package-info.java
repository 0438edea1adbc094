/**
 * The reservation of GPU memory for a restore: how much the process used, how much is free, and how
 * much other restores have reserved.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.reservation;
