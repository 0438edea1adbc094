/**
 * libcuda and NVML through JNR: the only package that knows their C functions and structs. It is
 * open because JNR's generated classes live in an unnamed module.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.cuda;
