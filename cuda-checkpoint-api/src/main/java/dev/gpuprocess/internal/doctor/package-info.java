/** Checks the machine and processes for what would prevent a verb. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.doctor;
