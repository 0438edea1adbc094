package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import org.jspecify.annotations.Nullable;

/**
 * What was found of one process, and done.
 *
 * @param suspended the process, when it waits to be resumed; else null
 */
public record RecoveredProcess(
    ProcessIdentity process, RecoveryOutcome outcome, @Nullable StateHandle suspended) {}
