/**
 * What is needed of the C library: a socket that keeps messages apart, a spawn that hands on
 * exactly what it is told to, signals, polling.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.os;
