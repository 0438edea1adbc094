/**
 * The program of {@code bin/lab/gpu-bus}: the speed of this library, against the driver's calls and
 * CRIU's command.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.bus;
