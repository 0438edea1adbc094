/** Calls that can hang, made where they can be left behind. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.call;
