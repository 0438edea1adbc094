/**
 * GPU device files that forked children have inherited and cannot use: whether they can be
 * released, and their release.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.inherited;
