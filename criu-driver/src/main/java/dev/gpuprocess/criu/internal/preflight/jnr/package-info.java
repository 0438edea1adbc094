/**
 * The C functions that Java has no word for, for JNR alone. Not exported; open because JNR's
 * generated classes live in an unnamed module.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.preflight.jnr;
