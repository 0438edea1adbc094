/** Figures that {@code bin/bench} and {@code bin/criu-bench} print. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.benchmarks;
