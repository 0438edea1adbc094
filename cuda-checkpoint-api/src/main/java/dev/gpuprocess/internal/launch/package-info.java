/**
 * Jobs that are started here: their start, their end, and the process that guards them.
 *
 * <p>The programs and the library that are written in C are in {@code src/main/c}.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.launch;
