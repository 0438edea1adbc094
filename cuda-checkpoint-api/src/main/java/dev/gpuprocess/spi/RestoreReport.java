package dev.gpuprocess.spi;

import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;

/**
 * The result of a restore, as CRIU measured it ({@code stats-restore}).
 *
 * @param process the root of the tree, alive
 * @param forking how long it took to create the tasks
 * @param restore how long the whole restore took
 * @param bytes memory restored, in bytes
 */
public record RestoreReport(
    ProcessIdentity process, Duration forking, Duration restore, long bytes) {}
