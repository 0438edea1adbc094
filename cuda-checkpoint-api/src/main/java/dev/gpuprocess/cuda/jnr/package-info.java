/**
 * The C functions as their headers declare them, for JNR alone. Not exported; open because JNR's
 * generated classes live in an unnamed module.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.cuda.jnr;
