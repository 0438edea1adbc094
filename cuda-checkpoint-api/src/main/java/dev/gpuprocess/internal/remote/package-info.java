/**
 * System calls that threads of other processes make on our behalf. The processes continue unchanged
 * afterwards, also if this JVM is killed in the middle. For x86_64.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.remote;
