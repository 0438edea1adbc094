package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.links.HeldLinks;
import dev.gpuprocess.criu.internal.linux.Wakeup;
import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.Statistics;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.LogFile;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.criu.internal.tree.FreePids;
import dev.gpuprocess.criu.internal.tree.ProcessDescriptions;
import dev.gpuprocess.criu.internal.tree.TreeFate;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One restore. */
public final class RestoreOperation {

  private static final Logger LOG = LoggerFactory.getLogger(RestoreOperation.class);

  /** More than the kernel needs to release a pid, also on a busy machine. */
  private static final Duration PID_PATIENCE = Duration.ofSeconds(10);

  private static final Pattern TAKEN = Pattern.compile("Can't fork for (\\d{1,9}): File exists");

  /**
   * CRIU reports in a debug message that a plugin could not start the devices of the tree again.
   */
  private static final Pattern DEVICES_FAILED =
      Pattern.compile("(\\(\\d+\\.\\d+\\) )?restore late stage hook for external plugin failed");

  private static final String THREAD_TAKEN = "Unable to create a thread: -" + Libc.EEXIST;

  private final RpcLink criu;
  private final RestoreRequest request;
  private final RestoreOptions options;
  private final int pid;
  private final String subject;
  private final Path log;
  private final RestoreListener listener;

  public RestoreOperation(RpcLink criu, RestoreRequest request, RestoreListener listener) {
    this.criu = criu;
    this.options = withRecordedCpu(request);
    this.request = request.with(options);
    this.pid = request.pid();
    this.subject = "restore of process " + pid;
    this.log = request.work().resolve(RpcLink.RESTORE_LOG);
    this.listener = listener;
  }

  /** Compares the CPU that was recorded with the images, which CRIU does only on request. */
  private static RestoreOptions withRecordedCpu(RestoreRequest request) {
    RestoreOptions options = request.options();
    boolean recorded = Files.exists(request.images().resolve(CpuImage.NAME));
    return recorded && !options.criu().isSet(CriuSwitch.CPU_CAP)
        ? options.toBuilder().criu(c -> c.cpuCheck(CpuCheck.INSTRUCTIONS)).build()
        : options;
  }

  public RestoreReport run() {
    if (pid <= 1) {
      throw new IllegalArgumentException("pid " + pid + " cannot be restored");
    }
    checkDirectories();
    CallContext.requireNotCancelled(
        options.cancellation(), "restore", subject, pid, Fate.HALF_RESTORED_REMOVED);
    requireOurChild();
    boolean ownNumbers = ImageSet.require(subject, request.images(), pid, request.plugin());
    if (!ownNumbers) {
      checkPidIsFree(pid, null);
    }
    HeldLinks.Placed links = putBackLinks();
    boolean restored = false;
    try {
      RestoreReport report = restore(ownNumbers);
      restored = true;
      return report;
    } catch (GpuCheckpointException e) {
      restored = e.failure().fate() == Fate.RUNNING_AGAIN;
      throw e;
    } finally {
      if (restored) {
        links.restored();
      } else {
        links.failed();
      }
    }
  }

  private HeldLinks.Placed putBackLinks() {
    try {
      return HeldLinks.in(request.images()).putBack(options.deadline());
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "%s did not begin: an unlinked file that the process had open cannot be put back (%s)"
              .formatted(subject, e.getMessage()),
          Failure.of("restore", pid),
          e);
    }
  }

  /**
   * Calls CRIU again while the kernel has not released a pid: on a busy machine that happens a
   * moment after the process is gone from {@code /proc}.
   */
  private RestoreReport restore(boolean ownNumbers) {
    Deadline deadline = Deadline.after(options.deadline());
    RestoreStages stages =
        new RestoreStages(pid, ownNumbers, listener, new RestoreRights(request.images()));
    try (Polling patience = new Polling(PID_PATIENCE)) {
      while (true) {
        try {
          return restore(stages, deadline);
        } catch (PidNotYetFreeException e) {
          if (stages.root() != null
              || e.failure().fate() != Fate.HALF_RESTORED_REMOVED
              || deadline.passed()
              || !patience.pause()) {
            throw e;
          }
          LOG.debug("repeating the restore", e);
          stages = stages.again();
        }
      }
    }
  }

  private RestoreReport restore(RestoreStages stages, Deadline deadline) {
    PartialRestoreCleanup cleanup =
        new PartialRestoreCleanup(
            criu.command(), stages.otherNumberOutside() ? 0 : pid, log, stages);
    CriuResult result;
    RestoredTerminal given;
    try (RestoredTerminal terminal = RestoredTerminal.of(request, criu.command());
        Wakeup wakeup = Wakeup.by(options.cancellation())) {
      given = terminal;
      Files.deleteIfExists(request.work().resolve(Statistics.OF_RESTORE));
      result =
          criu.restore(
              terminal.with(request),
              terminal.terminal(),
              new CallContext(
                  deadline,
                  stages,
                  () -> {
                    new LogFile(log).look();
                    stages.look();
                  },
                  cleanup,
                  wakeup));
    } catch (IOException e) {
      throw CriuFailureBuilder.notBegun("restore", subject, pid, e);
    }
    if (!result.success() || stages.thrown() != null) {
      throw afterFailure(result, cleanup, stages);
    }
    if (request.plugin() != null) {
      requireDevices(result, stages);
    }
    return report(result, stages, given);
  }

  private void requireDevices(CriuResult result, RestoreStages stages) {
    try (Stream<String> lines = Files.lines(log, StandardCharsets.ISO_8859_1)) {
      if (lines.noneMatch(line -> DEVICES_FAILED.matcher(line).matches())) {
        return;
      }
    } catch (IOException e) {
      throw notResumed(result, stages, "cannot be seen to have started its GPU again", e);
    }
    throw notResumed(result, stages, "did not start its GPU again", null);
  }

  private CriuException notResumed(
      CriuResult result, RestoreStages stages, String why, @Nullable IOException cause) {
    CriuFailureBuilder builder = builder(result);
    TreeOutcome outcome;
    try {
      outcome = afterResume(stages.root());
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("the fate of process {} is unknown", pid, e);
      outcome = new TreeOutcome(Fate.UNKNOWN, "and it is unknown whether the process runs");
    }
    return new CriuException(
        builder.message(
            outcome,
            "CRIU's plugin " + why,
            "look for the reason in CRIU's log, end the process and restore the image again"),
        builder.failure(outcome),
        builder.criu(),
        cause);
  }

  private void checkDirectories() {
    if (!Files.isDirectory(request.work()) || !Files.isWritable(request.work())) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          subject + " did not begin: " + request.work() + " is not a writable directory",
          Failure.of("restore", pid));
    }
  }

  private void requireOurChild() {
    CriuOptions wanted = options.criu();
    if (!wanted.get(CriuSwitch.INHERIT_FD).isEmpty()
        || !wanted.get(CriuSwitch.INHERIT_FILE).isEmpty()) {
      criu.command().requireDirect("restore", pid, "inherit-fd or inherit-file");
    }
    if (request.asChild()) {
      criu.command().requireDirect("restore", pid, "RestoreRequest.asChild");
    }
    if (wanted.isSet(CriuSwitch.MANAGE_CGROUPS)) {
      criu.command().requireRoot("restore", pid, "an option of cgroups");
    }
  }

  private void checkPidIsFree(int wanted, @Nullable Throwable cause) {
    FreePids.free(wanted);
    ProcessDescriptions.holder(wanted)
        .ifPresent(
            holder -> {
              throw new PidTakenException(
                  subject + " needs pid " + wanted + ", which is taken by " + holder,
                  Failure.of("restore", pid),
                  cause);
            });
  }

  private GpuCheckpointException afterFailure(
      CriuResult result, PartialRestoreCleanup cleanup, RestoreStages stages) {
    CriuFailureBuilder builder = builder(result);
    TreeOutcome outcome;
    try {
      outcome = stages.resumed() ? afterResume(stages.root()) : ended(cleanup, pid);
    } catch (NativeCallException | ProcessUnreadableException e) {
      GpuCheckpointException failure =
          builder.exception(
              new TreeOutcome(Fate.UNKNOWN, "and what it left behind could not be killed"),
              options.deadline());
      failure.addSuppressed(e);
      return failure;
    }
    Throwable thrown = stages.thrown();
    if (thrown instanceof RestoreRights.MissingException missing) {
      return CriuException.missingCapability(
          builder.message(outcome, String.valueOf(missing.getMessage()), RestoreRights.CURE),
          builder.failure(outcome),
          builder.criu(),
          Set.of(Capability.SETPCAP.toString()));
    }
    if (thrown != null) {
      return builder.thrownByListener(outcome, thrown);
    }
    // CRIU sets the errno only for the root's pid.
    Optional<Integer> taken =
        builder.errors().stream()
            .map(TAKEN::matcher)
            .filter(Matcher::find)
            .map(found -> Integer.valueOf(found.group(1)))
            .findFirst();
    if (result.errno() == Libc.EEXIST || taken.isPresent()) {
      int wanted = taken.orElse(pid);
      checkPidIsFree(wanted, builder.general(outcome, null));
      String needs = subject + " needs pid " + wanted + ", which ";
      return ProcessDescriptions.member(wanted)
          .map(
              member ->
                  new PidTakenException(
                      needs + "is still the session or group of " + member,
                      builder.failure(outcome),
                      builder.general(outcome, null)))
          .orElseGet(
              () ->
                  new PidNotYetFreeException(
                      needs + "the kernel has not released yet: try again",
                      builder.failure(outcome),
                      builder.general(outcome, null)));
    }
    if (builder.errors().stream().anyMatch(error -> error.contains(THREAD_TAKEN))) {
      return new PidTakenException(
          subject
              + " needs the ids that its threads had, and another thread or process has one of them: try again",
          builder.failure(outcome),
          builder.general(outcome, null));
    }
    return builder
        .typed(outcome, options.deadline())
        .or(() -> CpuImage.mismatch(builder, outcome))
        .orElseGet(() -> ImageSet.explain(builder, outcome, result.givenUp()));
  }

  private static TreeOutcome ended(PartialRestoreCleanup cleanup, int pid) {
    boolean allEnded = cleanup.end();
    // They are zombies of this JVM now, as children or adopted orphans, and hold their pids.
    cleanup.reap();
    return allEnded
        ? new TreeOutcome(Fate.HALF_RESTORED_REMOVED, "nothing of it is left")
        : new TreeOutcome(
            Fate.UNKNOWN, "and process " + pid + " exists but is not known to be part of it");
  }

  /** Determines the fate of a tree that CRIU was about to resume, or had resumed. */
  private static TreeOutcome afterResume(@Nullable ProcessIdentity root)
      throws NativeCallException {
    if (root == null) {
      return new TreeOutcome(Fate.UNKNOWN, "and CRIU never named the process");
    }
    return switch (TreeFate.of(List.of(root), false)) {
      case RUNS -> new TreeOutcome(Fate.RUNNING_AGAIN, "but the process runs");
      case GONE, DYING -> new TreeOutcome(Fate.ENDED, "and the process has ended");
      case UNSETTLED -> new TreeOutcome(Fate.UNKNOWN, "and the process is still stopped or traced");
    };
  }

  private CriuFailureBuilder builder(CriuResult result) {
    return new CriuFailureBuilder("restore", subject, pid, result, log);
  }

  private RestoreReport report(CriuResult result, RestoreStages stages, RestoredTerminal terminal) {
    // Recorded before the tree was resumed: it may have ended since.
    ProcessIdentity root = stages.root();
    if (root == null) {
      throw builder(result)
          .general(new TreeOutcome(Fate.UNKNOWN, "although CRIU says it went well"), null);
    }
    new ParentDeathRestore(request.images(), subject).run(root, request.asChild());
    terminal.giveTo(root);
    return Statistics.restore(request.work(), root, terminal.log());
  }

  /** The kernel has not released a pid yet that no process, session or group has. */
  private static final class PidNotYetFreeException extends PidTakenException {

    private static final long serialVersionUID = 1L;

    PidNotYetFreeException(String message, Failure failure, Throwable cause) {
      super(message, failure, cause);
    }
  }
}
