package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.SnapshotListener;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.report.SkippedSnapshot;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Writes images of a process that continues, once or repeatedly. */
@Command(
    name = "snapshot",
    description =
        "Write an image of a process that continues; with --every until the process ends.")
final class SnapshotCommand extends ProcessCommand {

  @Parameters(
      index = "1",
      paramLabel = "DIR",
      description = "The image to make; with --store or --every the directory of images.")
  private Path directory = Path.of("");

  @Option(
      names = "--store",
      description = "DIR is a directory of images; the image is named in it.")
  private boolean store;

  @Option(
      names = "--every",
      paramLabel = "TIME",
      description = "Repeat, until the process ends, or until --timeout or Ctrl-C.")
  private @Nullable Duration every;

  @Option(names = "--keep", paramLabel = "N", description = "With --every: keep the last N images.")
  private @Nullable Integer keep;

  @Mixin private final FirstProcess first = new FirstProcess();

  @Mixin private final DumpArguments dump = new DumpArguments();

  @Mixin private final CriuArguments criu = new CriuArguments();

  @Mixin private final PollArguments polls = new PollArguments();

  @Override
  boolean allowsPolls() {
    return polls.areAllowed();
  }

  @Override
  CriuOptions criu() {
    return criu.options();
  }

  @Override
  int run(Session session) {
    first.requireMeant(pid);
    GpuProcess process = session.inspect(pid);
    if (!(process instanceof RunningProcess running)) {
      throw wrongState(process, "a snapshot needs a running process");
    }
    DumpOptions options = dump.options(session);
    if (session.progress().isShown()) {
      Path image = store || every != null ? directory.resolve("image") : directory;
      session.progress().expect(Moved.gpuBytes(process.members()), Moved.intoImage(image));
    }
    ImageStore images = session.machine().store(directory);
    if (every != null) {
      return repeat(session, running, images, options, every);
    }
    Images.made(
        session, store ? images.snapshot(running, options) : running.snapshot(directory, options));
    return ExitCode.DONE.code();
  }

  private int repeat(
      Session session,
      RunningProcess process,
      ImageStore images,
      DumpOptions options,
      Duration interval) {
    Series series = new Series(session);
    SnapshotPlan.Builder plan =
        SnapshotPlan.into(images).every(interval).options(options).listener(series);
    if (keep != null) {
      int count = keep;
      plan.retention(
          CommandException.valid(() -> RetentionPolicy.builder().keepLast(count).build()));
    }
    try (RepeatedSnapshots snapshots = process.repeatSnapshots(plan.build())) {
      session.note(snapshots.toString());
      series.awaitEnd(session.remaining());
    }
    return ExitCode.DONE.code();
  }

  /** Prints each image, and waits for the end of the process. */
  private static final class Series implements SnapshotListener {

    private final Session session;
    private final CountDownLatch ended = new CountDownLatch(1);

    /** The message of the last failure, which is not repeated; empty after a success. */
    private String lastFailure = "";

    Series(Session session) {
      this.session = session;
    }

    void awaitEnd(Duration limit) {
      try {
        boolean unused = ended.await(limit.toMillis(), TimeUnit.MILLISECONDS);
      } catch (InterruptedException e) {
        // --timeout or Ctrl-C, which end the series; closing it waits for the image under way
      }
    }

    @Override
    public void made(ProcessImage image) {
      Images.made(
          session,
          image,
          image
              .snapshotTimes()
              .map(times -> times.whole().toNanos() / 1e9)
              .orElse(session.seconds()));
      lastFailure = "";
    }

    @Override
    public void failed(Throwable why) {
      String text = String.valueOf(why.getMessage());
      if (!text.equals(lastFailure)) {
        session.note("a snapshot failed: " + text);
      }
      lastFailure = text;
    }

    @Override
    public void skipped(SkippedSnapshot skipped) {
      session.note(skipped.message());
    }

    @Override
    public void pruneFailed(Throwable why) {
      session.note("older images could not be removed: " + why.getMessage());
    }

    @Override
    public void ended(boolean closed) {
      ended.countDown();
    }
  }
}
