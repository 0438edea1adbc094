/** Processes that take turns on GPUs, with failures and a scheduler that is killed. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.slot;
