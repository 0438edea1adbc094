/** What an image says about itself: {@link dev.gpuprocess.image.Manifest}, and what is in it. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.image;
