/** What the kernel says of processes, read from {@code /proc}. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.proc;
