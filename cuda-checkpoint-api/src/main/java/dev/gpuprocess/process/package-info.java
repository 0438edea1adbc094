/** The identity of a process: its pid and when it started. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.process;
