package dev.gpuprocess.gpu;

/**
 * Moves what a process had on one GPU to another at restore ({@code CUcheckpointGpuPair}).
 *
 * <p>Where pairs are given, every GPU of the machine is listed, also those that stay and those that
 * the process cannot see: driver 580 refuses a partial list.
 *
 * @param from the GPU at checkpoint
 * @param to the GPU after restore
 */
public record GpuPair(GpuUuid from, GpuUuid to) {}
