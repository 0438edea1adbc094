package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.RecoveryOutcome;
import org.jspecify.annotations.Nullable;

/**
 * The result of the recovery of one process.
 *
 * @param suspended the handle of a process that waits to be resumed; otherwise null
 */
public record RecoveredProcess(
    ProcessIdentity process, RecoveryOutcome outcome, @Nullable StateHandle suspended) {}
