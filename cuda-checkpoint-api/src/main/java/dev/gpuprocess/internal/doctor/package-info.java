/** Checks the machine and processes for obstacles to a verb. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.doctor;
