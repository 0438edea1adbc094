/**
 * Decodes CRIU's image files. Not exported: their content is published through
 * dev.gpuprocess.image.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.images;
