package dev.gpuprocess.survival;

import static org.awaitility.Awaitility.await;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.RepeatedSnapshots;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.SnapshotPlan;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/** A process or tree for snapshots. */
interface Snapshotted extends AutoCloseable {

  Duration PATIENCE = Duration.ofSeconds(50);

  /**
   * It while it is suspended.
   *
   * @param resume brings it back
   * @param dump ends it, into an image
   */
  record Suspended(Runnable resume, Consumer<Path> dump) {}

  /** That of the root. */
  int pid();

  /** One that uses CUDA. */
  int member();

  /** How many use CUDA. */
  int members();

  /** Checks that it continues; returns the fault. */
  Optional<String> fault();

  /** Checks that it continues from an earlier moment, restored from an image; returns the fault. */
  Optional<String> faultOfEarlier();

  RepeatedSnapshots begin(GpuCheckpoints checkpoints, SnapshotPlan plan);

  ProcessState state(GpuCheckpoints checkpoints);

  Suspended suspend(GpuCheckpoints checkpoints);

  /** Returns the reason why it does not run as a whole; may be empty. */
  List<Callable<Suspended>> waysToSuspend(GpuCheckpoints checkpoints);

  /** Restores and resumes it from the newest image that verifies. */
  void restoreNewest(ImageStore store, Consumer<StoredImage> skipped);

  @Override
  void close();

  /** Kills all its processes; their pids are free when this returns. */
  default void kill() {
    List<ProcessIdentity> all =
        IntStream.concat(
                IntStream.of(pid()), ProcFs.descendants(pid()).stream().mapToInt(Integer::intValue))
            .mapToObj(ProcessIdentity::of)
            .flatMap(Optional::stream)
            .toList();
    all.forEach(each -> Signals.send(each, Signals.KILL));
    await()
        .atMost(PATIENCE)
        .until(
            () -> all.stream().allMatch(each -> Files.notExists(Path.of("/proc/" + each.pid()))));
  }

  /** A single process. */
  record OfProcess(Subject subject) implements Snapshotted {

    @Override
    public int pid() {
      return subject.pid();
    }

    @Override
    public int member() {
      return subject.pid();
    }

    @Override
    public int members() {
      return 1;
    }

    @Override
    public Optional<String> fault() {
      return subject.fault();
    }

    @Override
    public Optional<String> faultOfEarlier() {
      return subject.faultOfEarlier();
    }

    @Override
    public RepeatedSnapshots begin(GpuCheckpoints checkpoints, SnapshotPlan plan) {
      return checkpoints.process(pid()).repeatSnapshots(plan);
    }

    @Override
    public ProcessState state(GpuCheckpoints checkpoints) {
      return checkpoints.inspect(pid()).state();
    }

    @Override
    public Suspended suspend(GpuCheckpoints checkpoints) {
      return suspended(checkpoints, pid());
    }

    static Suspended suspended(GpuCheckpoints checkpoints, int pid) {
      CheckpointedProcess suspended = checkpoints.process(pid).suspend();
      return new Suspended(suspended::close, suspended::dump);
    }

    @Override
    public List<Callable<Suspended>> waysToSuspend(GpuCheckpoints checkpoints) {
      return List.of(() -> suspend(checkpoints), () -> suspend(checkpoints));
    }

    @Override
    public void restoreNewest(ImageStore store, Consumer<StoredImage> skipped) {
      RunningProcess unused = store.restoreNewest(RestoreOptions.ofDefaults(), skipped).resume();
    }

    @Override
    public void close() {
      subject.close();
    }
  }

  /** A tree with two members. */
  record OfJob(JobSubject subject) implements Snapshotted {

    @Override
    public int pid() {
      return subject.pid();
    }

    @Override
    public int member() {
      return subject.member(1);
    }

    @Override
    public int members() {
      return JobSubject.PAIR;
    }

    @Override
    public Optional<String> fault() {
      return subject.fault();
    }

    @Override
    public Optional<String> faultOfEarlier() {
      return subject.fault();
    }

    @Override
    public RepeatedSnapshots begin(GpuCheckpoints checkpoints, SnapshotPlan plan) {
      return checkpoints.process(pid()).repeatSnapshots(plan);
    }

    @Override
    public ProcessState state(GpuCheckpoints checkpoints) {
      return checkpoints.inspect(pid()).state();
    }

    @Override
    public Suspended suspend(GpuCheckpoints checkpoints) {
      CheckpointedProcess suspended = checkpoints.process(pid()).suspend();
      return new Suspended(suspended::close, suspended::dump);
    }

    @Override
    public List<Callable<Suspended>> waysToSuspend(GpuCheckpoints checkpoints) {
      return List.of(() -> suspend(checkpoints), () -> OfProcess.suspended(checkpoints, member()));
    }

    @Override
    public void restoreNewest(ImageStore store, Consumer<StoredImage> skipped) {
      RunningProcess unused = store.restoreNewest(RestoreOptions.ofDefaults(), skipped).resume();
    }

    @Override
    public void close() {
      subject.close();
    }
  }
}
