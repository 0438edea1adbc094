/**
 * Processes that this JVM starts: their start and end, the program that guards them, and their
 * requests for snapshots.
 *
 * <p>The programs and the library that are written in C are in {@code src/main/c}.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.launch;
