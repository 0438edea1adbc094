/** The connection of two hosts over which a process moves from one to the other. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.wire;
