/** A restore, from the first look to the verdict. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.restore;
