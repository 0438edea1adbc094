/**
 * What an image says about itself: {@link dev.gpuprocess.image.Manifest} and its files, and {@link
 * dev.gpuprocess.image.ImageKey}, which signs it.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.image;
