package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.dumped.DumpedTree;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageMismatchException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.gpu.GpuUuid;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.dump.CarriedState;
import dev.gpuprocess.internal.dump.ManifestOptions;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.journal.Journal;
import dev.gpuprocess.internal.journal.JournalEntry;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.proc.LifeSign;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.store.ImageDirectory;
import dev.gpuprocess.internal.store.LogDirectory;
import dev.gpuprocess.internal.store.Reading;
import dev.gpuprocess.internal.store.Retention;
import dev.gpuprocess.internal.store.VerifiedImage;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.Patience;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.progress.Step;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;

/**
 * A process on disk: a directory with CRIU's image files and a manifest. It is complete and
 * durable, and can be restored any number of times, one at a time. Immutable; may be shared between
 * threads. A restore has a deadline; what only reads or removes files takes as long as the disk
 * does.
 */
public final class ProcessImage {

  private static final Duration REAP_LIMIT = Duration.ofSeconds(2);
  private static final Duration INIT_REAP_LIMIT = Duration.ofSeconds(10);
  private static final Duration TEARDOWN_LIMIT = Duration.ofSeconds(60);
  private static final long POLL_NANOS = 1_000_000;

  /** In place of a start time: whoever will have the pid. */
  private static final long NOT_STARTED = 0;

  private final GpuCheckpoints checkpoints;
  private final ImageDirectory directory;
  private final List<Step> steps;

  ProcessImage(GpuCheckpoints checkpoints, ImageDirectory directory, List<Step> steps) {
    this.checkpoints = checkpoints;
    this.directory = directory;
    this.steps = List.copyOf(steps);
  }

  /**
   * Opens an image, with the drivers of this machine. Reads the manifest only; {@link #verify} and
   * {@link #restore} read everything.
   *
   * @param directory as given to {@link CheckpointedProcess#dump(Path)}
   * @return the image
   * @throws dev.gpuprocess.error.ImageMissingException when there is none
   * @throws dev.gpuprocess.error.ImageFormatException when another version wrote it
   * @throws dev.gpuprocess.error.ImageCorruptException when the manifest was altered
   * @throws dev.gpuprocess.error.ImageNotTrustedException when somebody else could have written it
   */
  public static ProcessImage open(Path directory) {
    return GpuCheckpoints.standard().open(directory);
  }

  static ProcessImage open(GpuCheckpoints checkpoints, Path directory) {
    return new ProcessImage(
        checkpoints, ImageDirectory.open(directory, checkpoints.imageKey()), List.of());
  }

  /**
   * Where the image is.
   *
   * @return its directory
   */
  public Path directory() {
    return directory.path();
  }

  /**
   * What the image holds.
   *
   * @return the manifest
   */
  public Manifest manifest() {
    return directory.manifest();
  }

  /**
   * What was done to make this image; empty for one that was opened.
   *
   * @return the steps, oldest first
   */
  public List<Step> steps() {
    return steps;
  }

  /**
   * Reads every file and compares it with the manifest. An interrupt changes nothing: the thread
   * stays interrupted.
   *
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, truncated or altered
   * @throws dev.gpuprocess.error.ImageNotTrustedException when somebody else could have written it
   */
  public void verify() {
    directory.verify();
  }

  /**
   * Removes older images of the same process (by pid and command line) that lie beside this one, as
   * after a snapshot that replaces the ones before. What stays is verified first; links, half
   * images, and what could have been written by others are not touched. Keep the images of
   * different jobs in different directories.
   *
   * @param keep how many stay, this one included; at least 1
   * @return what was removed, oldest first
   * @throws dev.gpuprocess.error.ImageException when this one does not verify, and nothing was
   *     removed, or when something cannot be removed
   * @throws dev.gpuprocess.error.OperationInProgressException when an image of the process is being
   *     restored, or another verb is at it
   * @throws IllegalArgumentException when fewer than 1 shall stay
   */
  public List<Path> removeOlder(int keep) {
    String verb = "remove older images";
    ProcessLock turn = turn(verb);
    try {
      // What is removed has the name of a half image for a while, which a recovery must find.
      int pid = manifest().pid();
      ProcessKey anyone = new ProcessKey(ProcessKey.self().namespace(), pid, NOT_STARTED);
      JournalEntry entry = JournalEntry.of(anyone, pid, verb, Holdings.UNKNOWN, directory(), null);
      checkpoints.journal().write(entry);
      try {
        return new Retention(directory, checkpoints.imageKey()).keep(keep);
      } finally {
        checkpoints.journal().remove(anyone);
      }
    } finally {
      turn.end();
    }
  }

  /** Keeps every other verb from whoever has the pid, or will have it. */
  private ProcessLock turn(String verb) {
    int pid = manifest().pid();
    return ProcessLock.take(
        new ProcessKey(ProcessKey.self().namespace(), pid, NOT_STARTED),
        pid,
        verb,
        ProcessLock.Kind.MOVE,
        checkpoints.state(),
        checkpoints.timeouts().call());
  }

  /**
   * Reads what is in the image: the tree, command lines, threads, memory by kind, open files and
   * sockets. Reads none of the memory but the command lines, and compares nothing with the
   * manifest; {@link #verify} does.
   *
   * @return the tree as it was dumped
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, cut off or altered
   */
  public DumpedTree describe() {
    return checkpoints.criu().describe(directory.images());
  }

  /**
   * Brings the process back with CRIU, with the pid it had; its GPU memory is still in host memory.
   * The image stays.
   *
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, truncated or
   *     altered; CRIU was not started
   * @throws PidTakenException when the pid belongs to another process
   * @throws dev.gpuprocess.error.CriuException when CRIU could not restore; nothing is left of it
   */
  public CheckpointedProcess restore() {
    return restore(RestoreOptions.ofDefaults());
  }

  /**
   * Brings the process back with CRIU, with the pid it had; its GPU memory is still in host memory.
   * The image stays.
   *
   * @param options how to restore; what must match the dump is added from the manifest
   * @return the checkpointed process
   * @throws dev.gpuprocess.error.ImageCorruptException when a file is missing, truncated or
   *     altered; CRIU was not started
   * @throws ImageMismatchException when it is not the image that the options expect; nothing was
   *     touched
   * @throws PidTakenException when the pid belongs to another process
   * @throws dev.gpuprocess.error.CriuException when CRIU could not restore; nothing is left of it
   * @throws dev.gpuprocess.error.OperationInProgressException when another restore of it is under
   *     way on this machine
   * @throws dev.gpuprocess.error.OperationTimedOutException when the deadline passed
   * @throws dev.gpuprocess.error.OperationCancelledException when it was cancelled
   * @throws IllegalArgumentException with lazyPages, and with autoDedup, which eats the image
   */
  public CheckpointedProcess restore(RestoreOptions options) {
    if (options.lazyPages()) {
      throw new IllegalArgumentException(
          "an image with a manifest holds its own memory: restore without lazyPages, or with"
              + " CriuDriver.restore");
    }
    if (options.autoDedup()) {
      throw new IllegalArgumentException(
          "a restore with autoDedup takes out of the image what it has restored, and the image stays:"
              + " restore without autoDedup, or with CriuDriver.restore");
    }
    requireExpected(options);
    RestoreOptions all =
        ManifestOptions.with(manifest().options(), options.toBuilder().expectNothing().build());
    Manifest manifest = manifest();
    StepRecorder measured = new StepRecorder(checkpoints.listener(), manifest.pid(), steps);
    ProcessLock turn = turn("restore");
    try {
      requirePidFree();
      turn.atCriu(true);
      return restore(all, measured);
    } finally {
      turn.end();
    }
  }

  private void requireExpected(RestoreOptions options) {
    Manifest found = manifest();
    Optional<String> label = options.expectedLabel();
    if (label.isPresent() && !label.get().equals(found.label())) {
      throw mismatch(
          found.label() == null
              ? "has no label, and '%s' was expected".formatted(label.get())
              : "is labelled '%s', and '%s' was expected".formatted(found.label(), label.get()));
    }
    Optional<ProcessIdentity> process = options.expectedProcess();
    if (process.isPresent()
        && !process.get().equals(new ProcessIdentity(found.pid(), found.startTicks()))) {
      throw mismatch(
          "is of process %s started at tick %s, and process %s started at tick %s was expected"
              .formatted(
                  found.pid(),
                  found.startTicks(),
                  process.get().pid(),
                  process.get().startTicks()));
    }
  }

  private ImageMismatchException mismatch(String why) {
    return new ImageMismatchException(
        "the image %s %s: find out who put it there; nothing was restored"
            .formatted(directory(), why),
        Failure.of("restore", manifest().pid()));
  }

  private CheckpointedProcess restore(RestoreOptions options, StepRecorder measured) {
    Manifest manifest = manifest();
    BoundedDiskTask disk =
        new BoundedDiskTask("restore", manifest.pid(), directory(), options.deadline());
    disk.admit();
    Reading reading =
        Reading.within(
            "restore", manifest.pid(), options.deadline(), options.cancellation().orElse(null));
    try (VerifiedImage verified =
        measured.run("verify", () -> verified(disk, reading), image -> manifest.bytes())) {
      LogDirectory log = LogDirectory.planned("restore");
      TrackedProcess target = restore(verified, log, options, measured);
      measured.rethrow();
      return new CheckpointedProcess(StateHandle.next(target, measured.taken()));
    }
  }

  private TrackedProcess restore(
      VerifiedImage verified, LogDirectory log, RestoreOptions options, StepRecorder measured) {
    Manifest manifest = manifest();
    Holdings held = held(manifest);
    Journal journal = checkpoints.journal();
    ProcessKey expected = journal.writeRestore(manifest.pid(), held, directory(), log.path());
    boolean isNoted = true;
    try {
      log.make();
      RestoreReport report =
          measured.run(
              "criu restore", () -> criuRestore(verified, log, options), RestoreReport::bytes);
      ProcessIdentity origin = new ProcessIdentity(manifest.pid(), manifest.startTicks());
      TrackedProcess target = new TrackedProcess(checkpoints, report.process(), held, origin);
      target.leaveAt(ProcessState.CHECKPOINTED);
      log.delete();
      return target;
    } catch (PidTakenException e) {
      log.endedWith(e);
      throw e;
    } catch (RuntimeException | Error e) {
      log.endedWith(e);
      isNoted = isSurvivorNoted(expected, held, e);
      throw e;
    } finally {
      if (isNoted) {
        journal.remove(expected);
      }
    }
  }

  private VerifiedImage verified(BoundedDiskTask disk, Reading reading) {
    return disk.run(
        "verify",
        () -> directory.verified(reading),
        late -> {
          if (late != null) {
            late.close();
          }
        });
  }

  /**
   * CRIU may fail after it let the process go: whoever resumes it must know what it held. Where it
   * cannot be seen whether it lives, as for want of descriptors, what was written before the
   * restore stays for a recovery.
   *
   * @param why gets what is in the way
   */
  private boolean isSurvivorNoted(ProcessKey expected, Holdings held, Throwable why) {
    try (Patience patience = new Patience(checkpoints.timeouts().call())) {
      while (true) {
        try {
          ProcessIdentity.of(expected.pid())
              .filter(found -> found.isAlive() && found.startTicks() >= expected.startTicks())
              .ifPresent(
                  found ->
                      new TrackedProcess(checkpoints, found, held)
                          .noteState(ProcessState.CHECKPOINTED));
          return true;
        } catch (ProcessUnreadableException unknown) {
          if (!patience.pause()) {
            why.addSuppressed(unknown);
            return false;
          }
        }
      }
    }
  }

  /**
   * A zombie is waited for briefly: its parent may be about to reap it. A little longer for init,
   * which does reap, but in some containers only every other second; and for the dumped process
   * itself, which the kernel may still be tearing down. A zombie of this JVM is left to the CRIU
   * driver, which reaps it if nobody else does.
   */
  private void requirePidFree() {
    int pid = manifest().pid();
    long begin = System.nanoTime();
    while (true) {
      Optional<ProcStat> holder = ProcFs.stat(pid);
      if (holder.isEmpty() || isZombieOfOurs(holder.get())) {
        return;
      }
      if (System.nanoTime() - begin > Durations.nanos(patience(holder.get()))) {
        throw new PidTakenException(takenMessage(holder.get()), Failure.of("restore", pid));
      }
      LockSupport.parkNanos(POLL_NANOS);
    }
  }

  private Duration patience(ProcStat holder) {
    if (holder.isDead()) {
      return holder.parent() == 1 ? INIT_REAP_LIMIT : REAP_LIMIT;
    }
    return isDying(holder) ? TEARDOWN_LIMIT : Duration.ZERO;
  }

  private boolean isDying(ProcStat holder) {
    return holder.startTicks() == manifest().startTicks()
        && LifeSign.of(holder.pid()) == LifeSign.ENDING;
  }

  private static boolean isZombieOfOurs(ProcStat stat) {
    return stat.isDead() && stat.parent() == ProcessHandle.current().pid();
  }

  private String takenMessage(ProcStat stat) {
    if (isDying(stat)) {
      return "process %s was killed and the kernel is still tearing it down: try again when it is gone"
          .formatted(stat.pid());
    }
    if (!stat.isDead() && isItself(manifest(), stat)) {
      return "process %s (%s) is there: it is the process of this image, which lives on or was restored already; go on with it, or end it first to go back to the image"
          .formatted(stat.pid(), stat.name());
    }
    return stat.isDead()
        ? "pid %s is still held by a zombie (%s) that its parent %s has not reaped; the image can be restored once it is%s"
            .formatted(
                stat.pid(),
                stat.name(),
                stat.parent(),
                stat.parent() == 1
                    ? ": run the container with an init that reaps, such as docker run --init or tini"
                    : "")
        : "pid %s belongs to another process now (%s): end it, or restore in a pid namespace of its own"
            .formatted(stat.pid(), stat.name());
  }

  /** The one that was dumped, or what looks like it: a restore begins a new time of its own. */
  private static boolean isItself(Manifest manifest, ProcStat stat) {
    return stat.startTicks() == manifest.startTicks()
        || (!manifest.commandLine().isEmpty()
            && manifest.commandLine().equals(ProcFs.commandLine(stat.pid())));
  }

  private RestoreReport criuRestore(
      VerifiedImage verified, LogDirectory log, RestoreOptions options) {
    CarriedState carried = CarriedState.read(manifest().pid(), verified.images());
    try {
      return checkpoints
          .criu()
          .restore(
              new RestoreRequest(verified.images(), log.path(), manifest().pid(), options),
              carried);
    } catch (RuntimeException e) {
      carried.removeWhatWasMade();
      throw e;
    }
  }

  private static Holdings held(Manifest manifest) {
    Map<GpuUuid, Long> held = new TreeMap<>();
    manifest.gpuBytes().forEach((gpu, bytes) -> held.put(GpuUuid.of(gpu), bytes));
    return Holdings.of(held);
  }

  @Override
  public String toString() {
    return "image of process " + manifest().pid() + " in " + directory();
  }
}
