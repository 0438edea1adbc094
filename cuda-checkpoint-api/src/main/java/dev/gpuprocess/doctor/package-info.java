/** What {@link dev.gpuprocess.GpuCheckpoints#doctor()} finds of a machine or a process. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.doctor;
