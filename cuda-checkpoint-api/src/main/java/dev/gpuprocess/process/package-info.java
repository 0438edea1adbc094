/** Which process: a pid and when it started. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.process;
