package dev.gpuprocess.dumped;

import java.time.Duration;

/**
 * What a dump took ({@code stats-dump}).
 *
 * @param freezing until every task of the tree was stopped
 * @param frozen how long the tree stood still, the listener's time included
 * @param memory collecting the memory in the target
 * @param write writing the memory
 * @param bytes memory written, private and shared, in bytes
 */
public record DumpReport(
    Duration freezing, Duration frozen, Duration memory, Duration write, long bytes) {}
