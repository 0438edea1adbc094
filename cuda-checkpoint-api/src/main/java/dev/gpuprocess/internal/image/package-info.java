/** Images on disk: a directory that is complete and synced, or is not there. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.image;
