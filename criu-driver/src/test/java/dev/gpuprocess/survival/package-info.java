/**
 * Nothing is ever lost: whatever goes wrong, at whatever step, the process runs on, or is durable
 * on disk, or is suspended where {@code inspect} finds it. The verdict is always read from the
 * process itself: its number goes on, and every byte of its GPU memory is right.
 *
 * <p>{@link dev.gpuprocess.survival.FaultMatrixTest} goes through every fault at every step, {@link
 * dev.gpuprocess.survival.CrashTest} kills the controller, {@link dev.gpuprocess.survival.SoakTest}
 * does everything at random for a while.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.survival;
