/**
 * Decodes CRIU's image files. Not exported: their content is published through
 * dev.gpuprocess.dumped.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.images;
