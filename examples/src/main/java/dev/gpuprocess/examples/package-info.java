/**
 * Programs that use the library: {@code demo} shows the main job step by step, {@code cookbook} has
 * the recipes of the documentation, {@code verification} checks the library on a machine with an
 * NVIDIA GPU, {@code benchmarks} and {@code bus} measure it, and {@code zdtm} runs CRIU's own test
 * programs through it. Not published.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples;
