/** The GPUs of the machine: which there are, what is free on them, and who uses them. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.gpu;
