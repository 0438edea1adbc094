package dev.gpuprocess.image;

import java.time.Duration;

/**
 * What a dump took, as CRIU measured it ({@code stats-dump}).
 *
 * @param freezing how long it took to stop every task of the tree
 * @param frozen how long the tree was stopped, including the time that the listener took
 * @param memory how long it took to collect the memory in the target
 * @param write how long it took to write the memory
 * @param bytes memory written, private and shared, in bytes
 */
public record DumpReport(
    Duration freezing, Duration frozen, Duration memory, Duration write, long bytes) {}
