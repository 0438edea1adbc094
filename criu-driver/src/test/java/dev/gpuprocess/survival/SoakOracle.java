package dev.gpuprocess.survival;

import dev.gpuprocess.FailedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.Recovered;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/** Checks the invariants between two rounds of the soak. */
final class SoakOracle {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final SimulatedMachine machine;
  private final GpuCheckpoints checkpoints;
  private final List<Violation> violations = new ArrayList<>();
  private int images;
  private int cameBack;
  private int replaced;

  SoakOracle(SimulatedMachine machine) {
    this.machine = machine;
    this.checkpoints = machine.checkpoints();
  }

  /** The violations so far. */
  List<Violation> violations() {
    return violations;
  }

  void addViolation(Violation violation) {
    violations.add(violation);
  }

  private void addViolation(Violation.Kind kind, String text) {
    addViolation(new Violation(kind, text));
  }

  /** Returns the number of images. */
  int images() {
    return images;
  }

  /** Returns the number of restored processes. */
  int cameBack() {
    return cameBack;
  }

  /** Returns the number of processes that a fault killed before their first image. */
  int replaced() {
    return replaced;
  }

  /** Resumes every process, and replaces the processes that cannot be resumed. */
  void judge(List<SoakSubject> subjects) {
    List<ProcessImage> whole = wholeImages(subjects);
    subjects.forEach(this::lookForForgotten);
    for (int i = 0; i < subjects.size(); i++) {
      if (!settle(subjects.get(i), whole)) {
        subjects.get(i).close();
        subjects.set(i, SoakSubject.start(machine.driver, machine.state()));
      }
      SoakSubject subject = subjects.get(i);
      subject.fault().ifPresent(why -> lost(why + verbsOf(subject.pid())));
    }
    lookForLeftEntries();
    removeOldImages(subjects, whole);
  }

  /** All run, so the journal is empty when the last late call has ended. */
  private void lookForLeftEntries() {
    List<Recovered> told = new ArrayList<>();
    boolean none =
        Waiting.until(
            PATIENCE,
            () -> {
              told.clear();
              told.addAll(checkpoints.recover());
              return machine.journal().isEmpty();
            });
    if (!none) {
      addViolation(
          Violation.Kind.LEAKED,
          "journal entries %s, of which a recovery tells %s".formatted(machine.journal(), told));
    }
  }

  private String verbsOf(int pid) {
    return "\n  " + VerbLog.last(VerbLog.beside(machine.images()), pid);
  }

  private void lost(String why) {
    addViolation(Violation.Kind.LOST, why);
  }

  /** A process that does not run is in the journal, so that a recovery finds it. */
  private void lookForForgotten(SoakSubject subject) {
    subject.signal(Signals.CONTINUE);
    List<String> states = new ArrayList<>();
    boolean known =
        Waiting.until(
            PATIENCE,
            () -> {
              // First the journal: the entry of what comes back just now goes.
              boolean noted =
                  checkpoints.recover().stream()
                      .anyMatch(found -> found.process().pid() == subject.pid());
              return noted || isSettled(subject, states);
            });
    if (!known) {
      addViolation(
          Violation.Kind.LEFT_BEHIND,
          "the journal does not know of process %d: %s%s"
              .formatted(subject.pid(), states.get(states.size() - 1), verbsOf(subject.pid())));
    }
  }

  /** Returns whether the process is in a known state; otherwise reports why not. */
  private boolean isSettled(SoakSubject subject, List<String> states) {
    try {
      GpuProcess found = checkpoints.inspect(subject.pid());
      states.add(found.toString());
      return found instanceof RunningProcess || found instanceof FailedProcess;
    } catch (NoSuchProcessException e) {
      return true;
    } catch (GpuCheckpointException e) {
      states.add(e.toString());
      return false;
    }
  }

  /** Every directory with the name of an image verifies. */
  private List<ProcessImage> wholeImages(List<SoakSubject> subjects) {
    List<ProcessImage> whole = new ArrayList<>();
    for (String name : machine.imageNames()) {
      try {
        ProcessImage image = checkpoints.open(machine.images().resolve(name));
        image.verify();
        whole.add(image);
        subjects.stream()
            .filter(subject -> subject.pid() == image.manifest().pid())
            .forEach(subject -> subject.imageFound(name));
      } catch (ImageException e) {
        addViolation(Violation.Kind.WRONG, "not a whole image: " + e.getMessage());
      }
    }
    return whole;
  }

  private static Optional<ProcessImage> newest(SoakSubject subject, List<ProcessImage> images) {
    return images.stream()
        .filter(image -> image.manifest().pid() == subject.pid())
        .max(Comparator.comparing(image -> image.manifest().created()));
  }

  /** Returns false when the process is lost. */
  private boolean settle(SoakSubject subject, List<ProcessImage> whole) {
    Optional<ProcessImage> image = newest(subject, whole);
    List<String> tried = new ArrayList<>();
    Optional<Boolean> settled =
        Waiting.forValue(
            PATIENCE,
            () -> {
              try {
                return tryToSettle(subject, image);
              } catch (GpuCheckpointException e) {
                SoakVerbs.removeLogs(e);
                tried.add(e.toString());
                return Optional.empty();
              }
            });
    if (settled.isEmpty()) {
      lost("process %d does not settle: %s".formatted(subject.pid(), tried.get(tried.size() - 1)));
    }
    return settled.orElse(false);
  }

  /** Returns empty when a retry is needed. */
  private Optional<Boolean> tryToSettle(SoakSubject subject, Optional<ProcessImage> image) {
    // It may have been dumped while it was stopped.
    subject.signal(Signals.CONTINUE);
    try {
      GpuProcess found = checkpoints.inspect(subject.pid());
      if (found instanceof FailedProcess) {
        if (!subject.mayBeBroken()) {
          lost(
              "process %d is failed, and nothing broke it; %s"
                  .formatted(subject.pid(), subject.history()));
        }
        subject.kill();
        return Optional.empty();
      }
      SoakVerbs.bringBack(found);
      subject.settled();
      return Optional.of(true);
    } catch (NoSuchProcessException e) {
      return ofGone(subject, image);
    }
  }

  private Optional<Boolean> ofGone(SoakSubject subject, Optional<ProcessImage> image) {
    if (image.isPresent()) {
      image.get().restore();
      subject.cameBackFrom(image.get().directory().getFileName().toString());
      cameBack++;
      return Optional.empty();
    }
    if (subject.wasKilled()) {
      replaced++;
    } else {
      lost("process " + subject.pid() + " is gone without an image; " + subject.history());
    }
    return Optional.of(false);
  }

  /** Processes without faults run, and continue to count. */
  void judgeQuiet(List<Subject> quiet) {
    for (Subject job : quiet) {
      GpuProcess found = checkpoints.inspect(job.pid());
      if (!(found instanceof RunningProcess)) {
        addViolation(Violation.Kind.LEFT_BEHIND, "the quiet job " + job.pid() + " is " + found);
        SoakVerbs.bringBack(found);
      }
      job.fault().ifPresent(why -> lost("the quiet job " + job.pid() + ": " + why));
    }
  }

  private void removeOldImages(List<SoakSubject> subjects, List<ProcessImage> whole) {
    images += whole.size();
    for (ProcessImage image : whole) {
      boolean wanted =
          subjects.stream().anyMatch(subject -> newest(subject, whole).equals(Optional.of(image)));
      if (!wanted) {
        String name = image.directory().getFileName().toString();
        FileTree.remove(image.directory());
        subjects.forEach(subject -> subject.imageRemoved(name));
      }
    }
    // The one that is kept is counted again in the next round.
    images -= machine.imageNames().size();
  }
}
