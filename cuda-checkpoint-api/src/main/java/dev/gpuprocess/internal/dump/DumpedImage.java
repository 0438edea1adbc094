package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.progress.SnapshotTimes;
import dev.gpuprocess.progress.Step;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An image that was just made.
 *
 * @param directory where it is, and what it holds
 * @param steps what was done to make it, oldest first
 * @param times how long that took; null for one that is no snapshot
 */
public record DumpedImage(
    ImageDirectory directory, List<Step> steps, @Nullable SnapshotTimes times) {}
