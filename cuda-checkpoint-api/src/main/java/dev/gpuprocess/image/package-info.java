/**
 * Images on disk: a directory that is complete and synced, or is not there. {@link
 * dev.gpuprocess.internal.store.StagedImage} makes one, {@link
 * dev.gpuprocess.internal.store.ImageDirectory} opens and verifies one, {@link
 * dev.gpuprocess.internal.store.VerifiedImage} is one that a restore may read, {@link
 * dev.gpuprocess.image.Manifest} says what is in it, and {@link dev.gpuprocess.image.ImageKey}
 * signs it. {@link dev.gpuprocess.internal.store.AbandonedImage} is what a maker left that died.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.image;
