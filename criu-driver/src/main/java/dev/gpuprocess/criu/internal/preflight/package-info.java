/** What would stop CRIU, found out by looking at {@code /proc}, before CRIU is asked. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.preflight;
