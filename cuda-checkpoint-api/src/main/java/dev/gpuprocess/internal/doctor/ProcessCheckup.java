package dev.gpuprocess.internal.doctor;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.dump.DumpCheck;
import dev.gpuprocess.internal.engine.PollCheck;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.Freezer;
import dev.gpuprocess.internal.proc.GpuFiles;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.JournalEntry;
import dev.gpuprocess.internal.state.ProcessHistory;
import dev.gpuprocess.internal.state.ProcessLock;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Checks one process: its state, and the obstacles to a suspend, resume or dump. */
final class ProcessCheckup {

  private final Checkup checkup;
  private final EngineContext context;
  private final ProcessIdentity process;
  private final String subject;
  private final List<Integer> children;
  private @Nullable ProcessState state;
  private boolean driverAnswers;
  private boolean hasNoCuda;

  /** The history of a process of which a restore ran out of GPU memory; otherwise null. */
  private @Nullable ProcessHistory poison;

  private final boolean asksDriver;

  /**
   * Creates the checks.
   *
   * @param asksDriver whether the driver reports a state; an AMD process has no such state
   */
  ProcessCheckup(
      Checkup checkup, EngineContext context, ProcessIdentity process, boolean asksDriver) {
    this.asksDriver = asksDriver;
    this.checkup = checkup;
    this.context = context;
    this.process = process;
    this.subject = "process " + process.pid();
    this.children = ProcFs.descendants(process.pid());
  }

  /**
   * Returns the state that the driver reports; null if it did not answer or the process has no
   * state.
   */
  @Nullable ProcessState state() {
    return state;
  }

  /** Returns whether the driver answered, also if the process has no CUDA state. */
  boolean driverAnswers() {
    return driverAnswers;
  }

  /** Checks the process itself; false if it has exited, so that there is nothing more to check. */
  boolean look() {
    Optional<ProcStat> stat = Processes.stat(process);
    if (stat.isEmpty() || stat.get().isDead()) {
      checkup.problem(
          subject,
          stat.map(s -> "has ended; its parent " + s.parent() + " has not reaped it yet")
              .orElse("has ended"),
          "");
      return false;
    }
    checkup
        .query(process, subject, context.timeouts().call(), () -> describe(stat.get()))
        .ifPresent(text -> checkup.ok(subject, text));
    boolean reachable = isReachable();
    lookAtJournal();
    Optional<Optional<String>> lock =
        checkup.query(
            process,
            "state directory",
            context.timeouts().call(),
            () -> ProcessLock.describe(ProcessKey.of(process), context.state()));
    Optional<String> busy = lock.flatMap(found -> found);
    if (busy.isPresent()) {
      checkup.warning(subject, busy.get(), "wait for it");
    } else if (reachable && asksDriver) {
      lookAtState();
    }
    return true;
  }

  private String describe(ProcStat stat) {
    List<String> command = ProcFs.commandLine(process.pid());
    return "%s, %s threads, %s descendants"
        .formatted(
            command.isEmpty() ? stat.name() : String.join(" ", command),
            ProcFs.threads(process.pid()).size(),
            children.size());
  }

  /** Returns whether driver calls on the process return: on a stopped process they would hang. */
  private boolean isReachable() {
    Freezer.State frozen = Freezer.look().of(process.pid());
    if (frozen == Freezer.State.FROZEN) {
      checkup.problem(subject, "is in a frozen cgroup: driver calls on it would hang", "thaw it");
      return false;
    }
    if (frozen == Freezer.State.UNKNOWN) {
      checkup.warning(
          subject,
          "has a control group that is not visible from here, so whether it is frozen is not known",
          "run this in the host's cgroup namespace");
    }
    Optional<Standstill> still = Standstill.of(process.pid());
    still.ifPresent(
        found ->
            checkup.problem(
                subject, found.what() + ": driver calls on it would hang", found.cure()));
    return still.isEmpty();
  }

  private void lookAtJournal() {
    checkup
        .query(
            "journal",
            context.timeouts().call(),
            () -> new Journal(context.state()).find(process).orElse(null))
        .ifPresent(this::addEntry);
  }

  private void addEntry(JournalEntry entry) {
    if (entry.history().poisoned()) {
      poison = entry.history();
      return;
    }
    String controller = "process " + entry.controller().pid();
    if (entry.controller().isSelf()) {
      checkup.ok("journal", "this JVM works on it: " + entry.step());
    } else if (entry.hasLiveController()) {
      checkup.warning(
          "journal", controller + " works on it: " + entry.step(), "leave it to that controller");
    } else {
      checkup.warning(
          "journal",
          controller + " worked on it (" + entry.step() + ") and has died",
          "GpuCheckpoints.recover() brings the process back");
    }
  }

  private void lookAtState() {
    Optional<CudaAnswer<ProcessState>> answer = checkup.state(context, "CUDA", process);
    if (answer.isEmpty()) {
      return;
    }
    driverAnswers = true;
    state = answer.get().value();
    if (state == null) {
      addRefusal(answer.get().result());
    } else {
      addState(state);
    }
  }

  private void addRefusal(CudaResult result) {
    if (result.equals(CudaResult.NOT_INITIALIZED)) {
      hasNoCuda = true;
    } else if (result.equals(CudaResult.OPERATING_SYSTEM)) {
      checkup.problem(
          "CUDA",
          "the driver cannot reach this process",
          "run as root or as the user of the process, in the host's pid namespace");
    } else {
      checkup.problem("CUDA", "the driver answers " + result, "");
    }
  }

  /**
   * Reports a process without CUDA state: a launcher, such as a shell, or one that has not begun.
   *
   * @param members how many descendants have CUDA state
   */
  void lookAtLackOfCuda(int members) {
    if (hasNoCuda && members > 0) {
      checkup.ok(
          "CUDA", "this process has no CUDA state, and %s of its descendants".formatted(members));
    } else if (hasNoCuda) {
      checkup.problem(
          "CUDA", "this process has no CUDA state", "wait until it has called cuInit, if it will");
    }
  }

  private void addState(ProcessState found) {
    switch (found) {
      case RUNNING -> checkup.ok("CUDA", "RUNNING");
      case LOCKED ->
          checkup.warning(
              "CUDA",
              "LOCKED: its CUDA calls wait",
              "GpuProcess.inspect(%s) gives a LockedProcess to unlock".formatted(process.pid()));
      case CHECKPOINTED -> addCheckpointed();
      case FAILED ->
          checkup.problem(
              "CUDA",
              "FAILED: it cannot be brought back",
              "kill it and restore an image of it, if there is one");
      default -> checkup.warning("CUDA", found + ": a controller works on it", "wait for it");
    }
  }

  private void addCheckpointed() {
    if (poison == null) {
      checkup.ok("CUDA", "CHECKPOINTED: it is off the GPU");
      return;
    }
    Path image = poison.fallback();
    checkup.problem(
        "CUDA",
        "CHECKPOINTED, and the driver refuses to restore it because an earlier restore ran out of GPU memory",
        "end it and restore "
            + (image == null ? "an image of it, if there is one" : "its image " + image));
  }

  /** Returns whether the driver refuses every restore of it. */
  boolean isPoisoned() {
    return poison != null && state == ProcessState.CHECKPOINTED;
  }

  /** Checks whether a suspend of a process on its GPU would be refused because of its polls. */
  void lookAtPolls() {
    if (DumpCheck.isOnGpu(state) && !context.allowPolls()) {
      checkup
          .query(process, "polls", context.timeouts().call(), () -> PollCheck.obstacle(process))
          .flatMap(found -> found)
          .ifPresent(
              why -> checkup.problem("polls", why + ": a suspend is refused", PollCheck.OPTION));
    }
  }

  /**
   * Checks for resources that CRIU does not dump, except those that a suspend removes, and those
   * that were reported for the children.
   */
  void lookAtDump(CriuDriver criu, DumpCheck dump) {
    List<Finding> findings =
        checkup
            .query(process, "dump", context.timeouts().transfer(), () -> dump.findings(criu))
            .orElse(List.of());
    for (Finding finding : findings) {
      UnsupportedResource resource = finding.resource();
      boolean deviceOfChild =
          resource != null
              && resource.pid() != process.pid()
              && GpuFiles.isNvidiaDevice(resource.name());
      if (!deviceOfChild) {
        checkup.add(finding);
      }
    }
    checkup
        .query(process, "attributes", context.timeouts().transfer(), dump::attributes)
        .ifPresent(found -> found.forEach(checkup::add));
    if (DumpCheck.isOnGpu(state) && !GpuHandles.of(process.pid(), () -> {}).isEmpty()) {
      checkup.ok("device files", "it has the GPU's device files open; a suspend closes them");
    }
  }
}
