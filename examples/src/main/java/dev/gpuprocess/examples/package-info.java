/**
 * What the library is for, as programs that run, each package by itself: {@code demo} shows the
 * main job step by step, {@code verification} proves it on a machine with an NVIDIA GPU, {@code
 * benchmarks} measures it, and {@code zdtm} tries it on CRIU's own test programs. Not published.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples;
