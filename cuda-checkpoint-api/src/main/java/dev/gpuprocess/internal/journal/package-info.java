/**
 * Records what is done to a process before it is done, so that a recovery can bring the process
 * back if its controller dies.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.journal;
