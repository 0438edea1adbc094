/** The needs of an image, which are recorded at a dump and compared with this machine; NCCL. */
@org.jspecify.annotations.NullMarked
package dev.gpuprocess.internal.machine;
