/** Restores a process from an image through the CRIU driver: verify, place, restore. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.restore;
