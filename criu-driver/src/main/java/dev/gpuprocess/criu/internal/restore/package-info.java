/** A restore, from the first check to the result. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.restore;
