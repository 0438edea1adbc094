/** Attributes of processes that CRIU does not restore: how they are found and carried. */
@NullMarked
package dev.gpuprocess.internal.attributes;

import org.jspecify.annotations.NullMarked;
