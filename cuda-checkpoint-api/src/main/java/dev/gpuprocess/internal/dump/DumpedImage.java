package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.report.SnapshotTimes;
import dev.gpuprocess.report.Step;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An image that was just made.
 *
 * @param directory the image
 * @param steps the steps that made it, oldest first
 * @param times how long a snapshot took; null for a dump
 */
public record DumpedImage(
    ImageDirectory directory, List<Step> steps, @Nullable SnapshotTimes times) {}
