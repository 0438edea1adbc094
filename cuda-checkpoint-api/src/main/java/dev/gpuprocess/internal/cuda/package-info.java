/**
 * libcuda and NVML through JNR. Only this package uses their C functions and structs. The package
 * is open because JNR's generated classes are in an unnamed module.
 */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.cuda;
