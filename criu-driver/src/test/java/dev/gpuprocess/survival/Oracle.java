package dev.gpuprocess.survival;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.FailedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.PoisonedProcess;
import dev.gpuprocess.PoisonedProcessException;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.internal.image.LogDirectory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Determines the fate of the process of a case, and whether resources leaked. */
final class Oracle {

  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private final FaultCaseContext setup;
  private final InjectedFault injected;
  private final @Nullable RuntimeException thrown;
  private final GpuCheckpoints checkpoints;
  private final List<String> violations = new ArrayList<>();

  Oracle(FaultCaseContext setup, InjectedFault injected, @Nullable RuntimeException thrown) {
    this.setup = setup;
    this.injected = injected;
    this.thrown = thrown;
    this.checkpoints = setup.machine().checkpoints();
  }

  /** The violations besides the verdict. */
  List<String> violations() {
    return violations;
  }

  Verdict verdict() {
    if (thrown != null && !(thrown instanceof GpuCheckpointException)) {
      violations.add("it threw " + thrown);
    }
    Verdict verdict;
    if (thrown instanceof PoisonedProcessException poisoned) {
      verdict = poisoned(poisoned.process());
    } else {
      Optional<GpuProcess> found = settled();
      verdict = found.isPresent() ? alive(found.get()) : gone();
    }
    lookAround();
    removeLogs(thrown);
    return verdict;
  }

  /** Returns the process when all calls of the verb have ended; empty when it is gone. */
  private Optional<GpuProcess> settled() {
    return Waiting.forValue(
            PATIENCE,
            () -> {
              if (isBeingUndone()) {
                letGoOn();
                return Optional.empty();
              }
              try {
                return Optional.of(Optional.of(checkpoints.inspect(setup.pid())));
              } catch (NoSuchProcessException e) {
                return Optional.of(Optional.<GpuProcess>empty());
              }
            })
        .orElseThrow(() -> new IllegalStateException("a call on the process never came back"));
  }

  /** Reading takes no lock, so it does not show whether an abandoned call has ended. */
  private boolean isBeingUndone() {
    return GpuCheckpoints.abandonedCalls() > 0
        && checkpoints.doctor(setup.pid()).toString().contains("is at work on it");
  }

  /**
   * A CRIU that found it stopped stops it again when it has ended, which may be after the case's
   * own SIGCONT. One that holds it now must see none.
   */
  private void letGoOn() {
    List<ProcStat> threads = ProcFs.tasks(setup.pid());
    if (!threads.isEmpty()
        && threads.stream().allMatch(each -> each.isStopped() && !each.isHeldByTracer())) {
      setup.signal(Signals.CONTINUE);
    }
  }

  private Verdict alive(GpuProcess found) {
    if (found instanceof FailedProcess failed) {
      failed.end();
      return imageExists() ? gone() : Verdict.FAILED;
    }
    if (found instanceof PoisonedProcess lost) {
      return poisoned(lost);
    }
    boolean asked = thrown == null;
    Verdict verdict = Verdict.RUNS;
    if (found instanceof LockedProcess locked) {
      locked.unlock();
      verdict = Verdict.MENDED;
    }
    if (found instanceof CheckpointedProcess suspended) {
      suspended.resume();
      verdict = asked ? Verdict.SUSPENDED : Verdict.MENDED;
    }
    return goesOn() ? verdict : Verdict.LOST;
  }

  private Verdict poisoned(PoisonedProcess process) {
    if (!imageExists()) {
      process.end();
      return Verdict.POISONED;
    }
    process.replaceWith(checkpoints.open(setup.image())).resume();
    return goesOn() ? Verdict.IMAGE : Verdict.LOST;
  }

  private Verdict gone() {
    if (!imageExists()) {
      return injected.kills() ? Verdict.ENDED : Verdict.LOST;
    }
    ProcessImage image = checkpoints.open(setup.image());
    CheckpointedProcess restored = image.restore();
    // It may have been dumped while it was stopped.
    setup.signal(Signals.CONTINUE);
    restored.resume();
    return goesOn() ? Verdict.IMAGE : Verdict.LOST;
  }

  private boolean imageExists() {
    try {
      checkpoints.open(setup.image()).verify();
      return true;
    } catch (ImageException e) {
      if (e.reason() != ImageException.Reason.MISSING) {
        throw e;
      }
      return false;
    }
  }

  private boolean goesOn() {
    Optional<String> fault = setup.subject().fault();
    fault.ifPresent(violations::add);
    return fault.isEmpty();
  }

  /** A call that was left behind may still remove the half image of its dump, and its entry. */
  private boolean isBeingTidied() {
    return GpuCheckpoints.abandonedCalls() > 0
        && (!halfImages().isEmpty() || entries().stream().anyMatch(name -> name.endsWith(".half")));
  }

  private List<String> halfImages() {
    return SimulatedMachine.names(setup.machine().images()).stream()
        .filter(name -> !name.equals("image"))
        .toList();
  }

  private void lookAround() {
    if (!Waiting.until(PATIENCE, () -> !isBeingTidied())) {
      violations.add("a call that was left behind does not tidy up");
    }
    if (!entries().isEmpty()) {
      controllerDies();
      List<Recovered> recovered = checkpoints.recover();
      if (!entries().isEmpty()) {
        violations.add("the journal has " + entries() + " after " + recovered);
      }
    }
    halfImages().forEach(name -> violations.add("a half image is left: " + name));
  }

  /** Removes CRIU's log, which the exception names. */
  private static void removeLogs(@Nullable Throwable thrown) {
    if (thrown == null) {
      return;
    }
    Path log = thrown instanceof CriuException e ? e.criu().orElseThrow().log() : null;
    if (log != null) {
      Path directory = log.getParent();
      if (LogDirectory.isOne(directory) && Files.exists(directory)) {
        FileTree.remove(directory);
      }
    }
    removeLogs(thrown.getCause());
    for (Throwable suppressed : thrown.getSuppressed()) {
      removeLogs(suppressed);
    }
  }

  private List<String> entries() {
    return SimulatedMachine.names(setup.machine().state()).stream()
        .filter(name -> !name.equals("locks.d"))
        .toList();
  }

  /** Turns the journal entries into those of a dead controller: no process has this start time. */
  private void controllerDies() {
    for (String name : entries()) {
      Path entry = setup.machine().state().resolve(name);
      try {
        String text = Files.readString(entry);
        Files.writeString(entry, text.replaceAll("controller.start=\\d+", "controller.start=1"));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
