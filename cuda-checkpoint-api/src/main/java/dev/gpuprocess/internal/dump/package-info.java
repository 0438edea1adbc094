/** Dumps a suspended process into an image and restores one from it, through the CRIU driver. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.dump;
