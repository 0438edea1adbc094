/** Decodes CRIU's image files. Not exported: what they hold is told in dev.gpuprocess.dumped. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.images;
