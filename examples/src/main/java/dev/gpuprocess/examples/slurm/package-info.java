/** A command in a Slurm job that is preempted, requeued, and continues on another node. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.examples.slurm;
