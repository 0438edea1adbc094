package dev.gpuprocess.cuda;

/**
 * Sends what a process had on one GPU to another at restore ({@code CUcheckpointGpuPair}).
 *
 * <p>If any pair is given, there must be one for every GPU of the machine, including GPUs that map
 * to themselves and GPUs that the process cannot see: driver 580 refuses a partial list.
 *
 * @param from the GPU at checkpoint
 * @param to the GPU after restore
 */
public record GpuPair(GpuUuid from, GpuUuid to) {}
