/** One {@code criu swrk}: what starts it, the conversation over its socket, and its end. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.process;
