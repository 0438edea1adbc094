/** What {@link dev.gpuprocess.GpuCheckpoints#doctor()} finds out about a machine or a process. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.doctor;
