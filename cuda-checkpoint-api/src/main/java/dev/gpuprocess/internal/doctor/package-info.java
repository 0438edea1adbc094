/** Looks at the machine and at processes, and says what would stop a verb. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.doctor;
