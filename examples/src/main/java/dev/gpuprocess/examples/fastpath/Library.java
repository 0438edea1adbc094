package dev.gpuprocess.examples.fastpath;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.progress.Step;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Through this library: populated ahead, handed over, checksummed, durable, verified. */
final class Library implements Way {

  static final DumpOptions HAND_OVER = DumpOptions.builder().handOver(true).build();

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
  public void dump(Path place) {
    image = Objects.requireNonNull(suspended).dump(place, HAND_OVER);
    taken = image.steps();
  }

  @Override
  public void restore() {
    RunningProcess again = Objects.requireNonNull(image).restore().resume();
    taken = again.steps();
  }

  /** How large the image is. */
  long bytes() {
    return Objects.requireNonNull(image).manifest().bytes();
  }

  @Override
  public String steps() {
    return taken.stream().map(Library::text).collect(Collectors.joining(", "));
  }

  private static String text(Step step) {
    String note = step.note().isEmpty() ? "" : " (" + step.note() + ")";
    return String.format(
        Locale.ROOT, "%s %.2f s%s", step.name(), step.duration().toNanos() / 1e9, note);
  }
}
