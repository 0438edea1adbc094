/**
 * What {@code bin/lab/gpu-bus} prints: this library against the driver's calls and CRIU's command.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.bus;
