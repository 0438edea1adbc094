/** Reads other processes, whose memory and files may hold anything, with a budget. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.target;
