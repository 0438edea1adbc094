/**
 * The GPUs of the machine: which there are, how much memory is free, and which processes use them.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.gpu;
