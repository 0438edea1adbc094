package dev.gpuprocess.spi;

import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;

/**
 * What a restore brought ({@code stats-restore}).
 *
 * @param process the root of the tree, alive
 * @param forking creating the tasks
 * @param restore the whole of the restore
 * @param bytes memory restored, in bytes
 */
public record RestoreReport(
    ProcessIdentity process, Duration forking, Duration restore, long bytes) {}
