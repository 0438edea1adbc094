/**
 * The host memory that holds the GPU memory of suspended processes, on its way into an image: it is
 * in files that CRIU is told of and does not copy.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.savearea;
