/** Processes that take turns on the GPUs of a machine. */
@NullMarked
package dev.gpuprocess.slot;

import org.jspecify.annotations.NullMarked;
