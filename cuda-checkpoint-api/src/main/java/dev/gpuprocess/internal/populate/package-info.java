/** Memory that a checkpoint is about to fill, populated ahead of the driver. */
@NullMarked
package dev.gpuprocess.internal.populate;

import org.jspecify.annotations.NullMarked;
