/**
 * What is written down before a process is moved, so that it can be mended when its controller
 * dies.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.journal;
