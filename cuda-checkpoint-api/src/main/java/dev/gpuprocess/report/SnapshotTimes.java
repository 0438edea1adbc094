package dev.gpuprocess.report;

import java.time.Duration;

/**
 * How long a snapshot took. Immutable.
 *
 * @param pause how long the process stood still for it: from the moment at which the driver was
 *     asked to lock it until it was unlocked again. GPU work that was under way then, and for which
 *     the lock waited, counts as well
 * @param whole from the call until the image was on the disk and had its name
 */
public record SnapshotTimes(Duration pause, Duration whole) {}
