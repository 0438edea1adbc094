package dev.gpuprocess.spi;

import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * The result of a restore, as CRIU measured it ({@code stats-restore}).
 *
 * @param process the root of the tree, alive
 * @param forking how long it took to create the tasks
 * @param restore how long the whole restore took
 * @param bytes memory restored, in bytes
 * @param terminalLog the file to which the output of the job is appended, if the job has a new
 *     pseudo-terminal instead of the one that it had; else null
 */
public record RestoreReport(
    ProcessIdentity process,
    Duration forking,
    Duration restore,
    long bytes,
    @Nullable Path terminalLog) {

  /** The report of a process without a new terminal. */
  public RestoreReport(ProcessIdentity process, Duration forking, Duration restore, long bytes) {
    this(process, forking, restore, bytes, null);
  }
}
