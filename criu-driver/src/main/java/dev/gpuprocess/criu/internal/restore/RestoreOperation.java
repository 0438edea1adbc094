package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.links.HeldLinks;
import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.StatsFile;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.LibC;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.os.Wakeup;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuCommand;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.LogLimit;
import dev.gpuprocess.criu.internal.rpc.FeatureCheck;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.criu.internal.tree.OwnZombies;
import dev.gpuprocess.criu.internal.tree.ProcessDescriptions;
import dev.gpuprocess.criu.internal.tree.TreeFate;
import dev.gpuprocess.criu.proto.Stats.restore_stats_entry;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.RestoreListener;
import dev.gpuprocess.spi.RestoreReport;
import dev.gpuprocess.spi.RestoreRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One RESTORE. */
public final class RestoreOperation {

  private static final Logger LOG = LoggerFactory.getLogger(RestoreOperation.class);
  private static final int EEXIST = 17;
  private static final Pattern TAKEN = Pattern.compile("Can't fork for (\\d{1,9}): File exists");

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
    this.request = new RestoreRequest(request.images(), request.work(), request.pid(), options);
    this.pid = request.pid();
    this.subject = "restore of process " + pid;
    this.log = request.work().resolve(RpcLink.RESTORE_LOG);
    this.listener = listener;
  }

  /** Whoever had the CPU recorded wants it compared; by itself CRIU does not. */
  private static RestoreOptions withRecordedCpu(RestoreRequest request) {
    RestoreOptions options = request.options();
    boolean recorded = Files.exists(request.images().resolve(CpuImage.NAME));
    return recorded && options.cpuCheck().isEmpty()
        ? options.toBuilder().cpuCheck(CpuCheck.INSTRUCTIONS).build()
        : options;
  }

  public RestoreReport run() {
    if (pid <= 1) {
      throw new IllegalArgumentException("pid " + pid + " cannot be restored");
    }
    checkDirectories();
    requireOurChild();
    if (options.lazyPages()) {
      requireHelper();
    }
    boolean ownNumbers = ImageSet.require(subject, request.images(), pid);
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
      return HeldLinks.in(request.images()).putBack();
    } catch (IOException e) {
      throw new ImageDirectoryException(
          "%s did not begin: a file that it had open and that had no name cannot be put back (%s)"
              .formatted(subject, e.getMessage()),
          Failure.of("restore", pid),
          e);
    }
  }

  private RestoreReport restore(boolean ownNumbers) {
    RestoreStages stages = new RestoreStages(pid, ownNumbers, listener);
    PartialRestoreCleanup remains =
        new PartialRestoreCleanup(criu.command(), ownNumbers ? 0 : pid, log, stages);
    CriuResult outcome;
    try (Wakeup wakeup = Wakeup.by(options.cancellation())) {
      Files.deleteIfExists(log);
      Files.deleteIfExists(request.work().resolve(StatsFile.RESTORE));
      outcome =
          criu.restore(
              request,
              new CallContext(
                  Deadline.after(options.deadline()),
                  stages,
                  new RootDeathWatch(stages, new LogLimit(log)),
                  remains,
                  wakeup));
    } catch (IOException e) {
      throw new CriuUnavailableException(
          subject + " did not begin: " + e.getMessage(), Failure.of("restore", pid), e);
    }
    if (!outcome.success() || stages.thrown() != null) {
      throw afterFailure(outcome, remains, stages);
    }
    return report(outcome, stages);
  }

  private void checkDirectories() {
    Failure failure = Failure.of("restore", pid);
    if (!Files.isDirectory(request.work()) || !Files.isWritable(request.work())) {
      throw new ImageDirectoryException(
          subject + " did not begin: " + request.work() + " is no directory that can be written to",
          failure);
    }
  }

  private void requireOurChild() {
    CriuCommand command = criu.command();
    command.requireDirect(
        "restore", pid, option(!options.inherit().isEmpty(), "RestoreOptions.inherit"));
    command.requireDirect("restore", pid, option(options.asChild(), "RestoreOptions.asChild"));
  }

  private static Optional<String> option(boolean set, String name) {
    return set ? Optional.of(name) : Optional.empty();
  }

  private void requireHelper() {
    Failure failure = Failure.of("restore", pid);
    if (!LazyPagesSocket.isIn(request.work())) {
      throw new CriuUnavailableException(
          subject
              + " did not begin: no lazy-pages helper has its work directory at "
              + request.work()
              + "; start one with RpcCriuDriver.lazyPages",
          failure);
    }
    FeatureCheck.require(criu.features(), CriuFeature.LAZY_PAGES, subject, failure);
  }

  private void checkPidIsFree(int wanted, @Nullable Throwable cause) {
    OwnZombies.free(wanted);
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
      CriuResult outcome, PartialRestoreCleanup remains, RestoreStages stages) {
    CriuFailureBuilder diagnosis = new CriuFailureBuilder("restore", subject, pid, outcome, log);
    TreeOutcome fate;
    try {
      fate = stages.resumed() ? afterResume(stages.root()) : ended(remains, pid);
    } catch (NativeCallException | ProcessUnreadableException e) {
      GpuCheckpointException failure =
          diagnosis.exception(
              new TreeOutcome(Fate.UNKNOWN, "and what it left behind could not be ended"),
              options.deadline());
      failure.addSuppressed(e);
      return failure;
    }
    Throwable thrown = stages.thrown();
    if (thrown != null) {
      return diagnosis.thrownByListener(fate, thrown);
    }
    // CRIU sets the number for the root's pid only.
    Optional<Integer> taken =
        diagnosis.errors().stream()
            .map(TAKEN::matcher)
            .filter(Matcher::find)
            .map(found -> Integer.valueOf(found.group(1)))
            .findFirst();
    if (outcome.errno() == EEXIST || taken.isPresent()) {
      int wanted = taken.orElse(pid);
      checkPidIsFree(wanted, diagnosis.general(fate, null));
      String by =
          ProcessDescriptions.member(wanted)
              .map(member -> "is still the session or group of " + member)
              .orElse("was taken for a moment; try again");
      return new PidTakenException(
          subject + " needs pid " + wanted + ", which " + by,
          diagnosis.failure(fate),
          diagnosis.general(fate, null));
    }
    return diagnosis
        .typed(fate, options.deadline())
        .or(() -> CpuImage.mismatch(diagnosis, fate))
        .orElseGet(() -> ImageSet.explain(diagnosis, fate, outcome.givenUp()));
  }

  private static TreeOutcome ended(PartialRestoreCleanup remains, int pid) {
    boolean allEnded = remains.end();
    // Zombies of ours now, as children or as orphans, and nobody else would free their pids.
    remains.reap();
    return allEnded
        ? new TreeOutcome(Fate.HALF_RESTORED_REMOVED, "nothing of it is left")
        : new TreeOutcome(
            Fate.UNKNOWN, "and process " + pid + " is there but is not known to be part of it");
  }

  /** CRIU had said that it lets the tree go. */
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

  private RestoreReport report(CriuResult outcome, RestoreStages stages) {
    // Kept from before the tree was let go: it may have ended since.
    ProcessIdentity root = stages.root();
    if (root == null) {
      throw new CriuFailureBuilder("restore", subject, pid, outcome, log)
          .general(new TreeOutcome(Fate.UNKNOWN, "although CRIU says it went well"), null);
    }
    restore_stats_entry stats;
    try {
      stats = StatsFile.read(request.work().resolve(StatsFile.RESTORE)).getRestore();
    } catch (IOException e) {
      LOG.debug("no statistics of this restore", e);
      stats = restore_stats_entry.getDefaultInstance();
    }
    return new RestoreReport(
        root,
        micros(stats.getForkingTime()),
        micros(stats.getRestoreTime()),
        stats.getPagesRestored() * LibC.functions().getpagesize());
  }

  private static Duration micros(int unsigned) {
    return Duration.of(Integer.toUnsignedLong(unsigned), ChronoUnit.MICROS);
  }
}
