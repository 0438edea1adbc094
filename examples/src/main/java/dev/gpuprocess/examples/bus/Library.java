package dev.gpuprocess.examples.bus;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.examples.demo.Progress;
import dev.gpuprocess.report.Step;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** This library, whose images are checksummed, durable, and verified at a restore. */
final class Library implements Way {

  private final GpuCheckpoints checkpoints;
  private final int pid;
  private @Nullable CheckpointedProcess suspended;
  private @Nullable ProcessImage image;
  private List<Step> taken = List.of();

  Library(GpuCheckpoints checkpoints, int pid) {
    this.checkpoints = checkpoints;
    this.pid = pid;
  }

  @Override
  public void suspend() {
    suspended = checkpoints.process(pid).suspend();
    taken = suspended.steps();
  }

  @Override
  public void resume() {
    taken = Objects.requireNonNull(suspended).resume().steps();
  }

  @Override
  public void dump(Path place) {
    image = Objects.requireNonNull(suspended).dump(place);
    taken = image.steps();
  }

  @Override
  public void restore() {
    taken = Objects.requireNonNull(image).restore().resume().steps();
  }

  /**
   * Makes an image of the process, which continues.
   *
   * @return the seconds for which the process was stopped
   */
  double snapshot(Path place) {
    ProcessImage made = checkpoints.process(pid).snapshot(place);
    taken = made.steps();
    return made.snapshotTimes().orElseThrow().pause().toNanos() / 1e9;
  }

  /** Returns the size of the image. */
  long bytes() {
    return Objects.requireNonNull(image).manifest().bytes();
  }

  /** Returns the seconds that the steps of the given name took in the last operation. */
  double seconds(String step) {
    return taken.stream()
        .filter(each -> each.name().equals(step))
        .mapToDouble(each -> each.duration().toNanos() / 1e9)
        .sum();
  }

  @Override
  public String steps() {
    return Progress.line(taken);
  }
}
