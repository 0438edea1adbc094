package dev.gpuprocess.internal.recovery;

import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.RecoveryOutcome;
import org.jspecify.annotations.Nullable;

/**
 * What a recovery found of one process, and did.
 *
 * @param suspended the process, when it waits to be resumed; else null
 */
public record RecoveredProcess(
    ProcessIdentity process, RecoveryOutcome outcome, @Nullable StateHandle suspended) {}
