/** A dump, from the first check to the result. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.dump;
