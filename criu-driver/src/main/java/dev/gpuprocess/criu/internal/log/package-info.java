/** CRIU's log and statistics, and the exceptions built from them. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.criu.internal.log;
