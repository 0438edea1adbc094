/** Dumps a suspended process into an image through the CRIU driver: prepare, write, seal. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.dump;
