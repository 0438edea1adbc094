/**
 * The content of an image's {@code manifest.json}: what the library itself needs of an image.
 * Callers get a {@link dev.gpuprocess.image.Manifest}.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.manifest;
