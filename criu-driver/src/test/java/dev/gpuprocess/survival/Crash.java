package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.contract.DyingJvm;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.report.RecoveryOutcome;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Kills one controller, and checks the recovery. */
final class Crash {

  private static final Duration PATIENCE = Duration.ofMinutes(2);

  /** Marks the controller and the CRIUs that it starts. */
  static final String MARK = "GPUPROCESS_STATE_DIR";

  /**
   * When the controller is killed.
   *
   * @param name for people
   * @param moment its number, -1 for a random one
   * @param nanos after the beginning, for a random one
   */
  record When(String name, int moment, long nanos) {}

  /**
   * What became of the process.
   *
   * @param fault why it is lost, empty when it is not
   * @param locked whether recovery left it locked or suspended
   * @param untidy what else was left
   */
  record Result(When when, Optional<String> fault, boolean locked, List<String> untidy) {

    boolean isGood() {
      return fault.isEmpty() && !locked && untidy.isEmpty();
    }
  }

  private final SimulatedMachine machine;
  private final When when;
  private final Subject subject;
  private final GpuCheckpoints checkpoints;

  private Crash(SimulatedMachine machine, When when, Subject subject) {
    this.machine = machine;
    this.when = when;
    this.subject = subject;
    this.checkpoints = machine.checkpoints();
  }

  static Result happen(SimulatedMachine machine, When when) {
    try (Subject subject = Subject.start(machine.driver)) {
      return new Crash(machine, when, subject).result();
    } finally {
      machine.removeImages();
    }
  }

  private Result result() {
    kill();
    boolean settled = recover();
    boolean locked = !settled || (subject.isAlive() && !isRunning());
    Optional<String> fault = locked ? mended() : alive();
    return new Result(when, fault, locked, untidy());
  }

  private void kill() {
    Process controller =
        ChildJvm.start(
            CrashController.class,
            machine.temporary(),
            Map.of(MARK, machine.state().toString()),
            List.of(
                machine.driver.directory().toString(),
                machine.state().toString(),
                machine.images().toString(),
                Integer.toString(subject.pid()),
                Integer.toString(when.moment())));
    boolean unused =
        DyingJvm.awaitEnd(
            controller, CrashController.BEGINS, when.moment() < 0 ? when.nanos() : -1);
  }

  /** Recovers until nothing is left to do; returns false if that does not happen. */
  private boolean recover() {
    return Waiting.until(
        PATIENCE,
        () -> {
          List<Recovered> found = checkpoints.recover();
          found.stream()
              .map(Recovered::suspended)
              .flatMap(suspended -> Optional.ofNullable(suspended).stream())
              .forEach(Crash::resume);
          return found.stream().allMatch(Crash::isSettled);
        });
  }

  private static void resume(CheckpointedProcess suspended) {
    try {
      suspended.resume();
    } catch (NoSuchProcessException e) {
      // The CRIU of the dead controller had its leave to end the process; then there is an image.
      return;
    }
  }

  private static boolean isSettled(Recovered recovered) {
    return recovered.outcome() != RecoveryOutcome.IN_USE
        && recovered.outcome() != RecoveryOutcome.UNREACHABLE
        && recovered.outcome() != RecoveryOutcome.SUSPENDED;
  }

  private boolean isRunning() {
    try {
      return checkpoints.inspect(subject.pid()) instanceof RunningProcess;
    } catch (NoSuchProcessException e) {
      return true;
    }
  }

  private Optional<String> alive() {
    if (!subject.isAlive()) {
      Optional<ProcessImage> image = newestImage();
      if (image.isEmpty()) {
        return Optional.of("it is gone without an image");
      }
      Workload.await(() -> isBack(image.get()), "the ids of the process to be free");
    }
    return subject.fault();
  }

  /** On a busy machine another process may get the id of one of its threads. */
  private static boolean isBack(ProcessImage image) {
    try {
      RunningProcess unused = image.restore().resume();
      return true;
    } catch (PidTakenException busy) {
      return false;
    }
  }

  /** Removes it, because recovery does not. */
  private Optional<String> mended() {
    GpuProcess found = checkpoints.inspect(subject.pid());
    if (found instanceof LockedProcess locked) {
      locked.unlock();
    }
    if (found instanceof CheckpointedProcess suspended) {
      suspended.resume();
    }
    if (found instanceof PoisonedProcess lost) {
      lost.resume();
    }
    return subject.fault();
  }

  /** The controller may have died while it removed an older one. */
  private Optional<ProcessImage> newestImage() {
    return machine.possibleImages().stream()
        .flatMap(path -> whole(path).stream())
        .max(Comparator.comparing(image -> image.manifest().created()));
  }

  private Optional<ProcessImage> whole(Path directory) {
    try {
      ProcessImage image = checkpoints.open(directory);
      image.verify();
      return Optional.of(image);
    } catch (ImageException e) {
      return Optional.empty();
    }
  }

  private List<String> untidy() {
    List<String> untidy = new ArrayList<>();
    if (!Waiting.until(PATIENCE, () -> machine.criu().isEmpty())) {
      untidy.add("CRIU runs: " + machine.criu());
    }
    machine.possibleImages().stream()
        .filter(path -> path.toString().endsWith(".partial"))
        .forEach(path -> untidy.add("half image " + path));
    SimulatedMachine.names(machine.temporary()).stream()
        .filter(name -> !isNativeCodeOfDeadJvm(name))
        .forEach(name -> untidy.add("temporary " + name));
    machine.journal().forEach(name -> untidy.add("journal entry " + name));
    return untidy;
  }

  /** A kill during loading leaves it; a recovery with the same temporary files removes it. */
  private static boolean isNativeCodeOfDeadJvm(String name) {
    Optional<DirectoryMaker> made = DirectoryMaker.ofTemporary(name);
    try {
      return name.startsWith("gpuprocess-native-") && made.isPresent() && made.get().hasEnded();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
