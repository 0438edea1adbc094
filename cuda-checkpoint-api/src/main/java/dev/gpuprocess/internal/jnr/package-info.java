/**
 * The C functions that Java lacks, as interfaces for JNR. The package is open because JNR's
 * generated classes live in an unnamed module.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.jnr;
