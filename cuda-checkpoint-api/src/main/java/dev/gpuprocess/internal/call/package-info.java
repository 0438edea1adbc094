/** Calls that can hang, on threads that can be abandoned. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.call;
