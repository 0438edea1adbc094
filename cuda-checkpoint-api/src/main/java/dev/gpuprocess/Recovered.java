package dev.gpuprocess;

import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import org.jspecify.annotations.Nullable;

/**
 * What {@link GpuCheckpoints#recover()} found of one process, and did.
 *
 * @param process which process
 * @param outcome what was done; {@link GpuProcess#inspect} gives a FAILED one as a {@link
 *     FailedProcess}, and a POISONED one as a {@link PoisonedProcess}
 * @param suspended the process tree, when it waits to be resumed: the same object for all its
 *     members, to be resumed once; else null
 */
public record Recovered(
    ProcessIdentity process, RecoveryOutcome outcome, @Nullable CheckpointedProcess suspended) {}
