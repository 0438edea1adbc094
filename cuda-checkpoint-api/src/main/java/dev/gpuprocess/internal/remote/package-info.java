/**
 * System calls that are made in threads of other processes, which go on as they were afterwards,
 * also when this JVM is killed in the middle. For x86_64.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.remote;
