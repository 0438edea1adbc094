/**
 * What forked children have of the GPU's device files and can do nothing with: whether they may
 * lose it, and how they do.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.inherited;
