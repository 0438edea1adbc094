/**
 * The C functions that Java does not offer, for JNR only. Not exported; open because JNR's
 * generated classes live in an unnamed module.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.preflight.jnr;
