/**
 * What is needed from the C library: a socket that preserves message boundaries, a spawn that
 * passes on exactly the given descriptors, signals, polling.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.linux;
