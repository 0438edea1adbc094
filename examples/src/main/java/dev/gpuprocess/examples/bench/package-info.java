/** Figures that {@code bin/bench} prints. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.bench;
