/**
 * What the library is for, as programs that run: {@link dev.gpuprocess.examples.Demo} shows the
 * main job step by step, and {@link dev.gpuprocess.examples.GpuVerify} proves it on a machine with
 * an NVIDIA GPU. Not published.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples;
