package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.os.NativeCallException;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.tree.ProcessDescriptions;
import dev.gpuprocess.criu.internal.tree.Tracer;
import dev.gpuprocess.criu.internal.tree.TreeFate;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.DumpRequest;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Finds out what became of a tree whose dump went wrong, and says it. */
final class DumpFailure {

  private static final Logger LOG = LoggerFactory.getLogger(DumpFailure.class);
  private static final int ESRCH = 3;

  private final DumpOptions options;
  private final ProcessIdentity root;
  private final String subject;
  private final DumpStages stages;
  private final CriuResult outcome;
  private final Path log;

  DumpFailure(
      DumpRequest request, String subject, DumpStages stages, CriuResult outcome, Path log) {
    this.options = request.options();
    this.root = request.process();
    this.subject = subject;
    this.stages = stages;
    this.outcome = outcome;
    this.log = log;
  }

  /** Returns only if the dump is good nevertheless: CRIU died, but it had done its work. */
  void throwUnlessGood() {
    boolean mayDie = stages.allowedToDie() && options.endsTree();
    TreeFate fate;
    try {
      fate = TreeFate.of(stages.tree(), mayDie);
      if (fate == TreeFate.RUNS && (mayDie || outcome.crashed())) {
        fate = TreeFate.onceItHasRun(stages.tree(), mayDie);
      }
    } catch (NativeCallException | ProcessUnreadableException e) {
      throw diagnosis()
          .general(new TreeOutcome(Fate.UNKNOWN, "what became of the process is not known"), e);
    }
    if (mayDie && stages.thrown() == null && (fate == TreeFate.GONE || fate == TreeFate.DYING)) {
      LOG.warn(
          "{} is done, but CRIU did not end well after the images were complete: {}",
          subject,
          outcome.givenUp() == null ? outcome.exit() : outcome.givenUp().reason());
      return;
    }
    throw exception(ending(fate, mayDie));
  }

  private static TreeOutcome ending(TreeFate fate, boolean mayDie) {
    return switch (fate) {
      case RUNS -> new TreeOutcome(Fate.RUNNING_AGAIN, "the process runs on");
      case GONE ->
          mayDie
              ? new TreeOutcome(
                  Fate.GONE_AND_DURABLE, "the process is gone and its images are complete")
              : new TreeOutcome(Fate.ENDED, "the process has ended");
      case DYING ->
          mayDie
              ? new TreeOutcome(
                  Fate.GONE_AND_DURABLE,
                  "the process was killed, is not gone yet, and its images are complete")
              : new TreeOutcome(Fate.ENDED, "the process was killed and is not gone yet");
      case UNSETTLED ->
          new TreeOutcome(
              Fate.UNKNOWN,
              mayDie
                  ? "the images are complete, and the process is still traced or frozen, so it may yet die"
                  : "the process is still stopped, traced or frozen");
    };
  }

  /** Throws when CRIU says that it went well, but the tree does not go. */
  void throwUnlessKilled() {
    if (TreeFate.awaitKill(stages.tree())) {
      return;
    }
    TreeOutcome ending;
    try {
      TreeFate fate = TreeFate.of(stages.tree(), true);
      if (fate == TreeFate.GONE || fate == TreeFate.DYING) {
        return;
      }
      ending = ending(fate, true);
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("{}", subject, e);
      ending = new TreeOutcome(Fate.UNKNOWN, "what became of the process is not known");
    }
    throw new CriuException(
        subject
            + " is done, but the process is still there although CRIU ended it: "
            + ending.words(),
        diagnosis().failure(ending),
        diagnosis().criu(),
        null);
  }

  private GpuCheckpointException exception(TreeOutcome ending) {
    CriuFailureBuilder diagnosis = diagnosis();
    Throwable thrown = stages.thrown();
    if (thrown != null) {
      return diagnosis.thrownByListener(ending, thrown);
    }
    if (outcome.errno() == ESRCH || neverStopped(diagnosis)) {
      CriuException details = diagnosis.general(ending, null);
      if (!root.isAlive()) {
        return noSuchProcess(root, details);
      }
      Optional<Tracer> tracer = Tracer.of(root.pid());
      if (tracer.isPresent()) {
        return new CriuException(
            diagnosis.message(ending, tracer.get().what(), tracer.get().cure()),
            details.failure(),
            details.criu(),
            null);
      }
    }
    return diagnosis
        .typed(ending, options.deadline())
        .or(() -> nobodyListens(diagnosis, ending))
        .or(() -> unsupported(diagnosis, ending))
        .or(() -> tracedMeanwhile(diagnosis, ending))
        .orElseGet(() -> diagnosis.exception(ending, options.deadline()));
  }

  /** A second CRIU on the tree, say, that is gone by now; its traces are warnings in the log. */
  private Optional<GpuCheckpointException> tracedMeanwhile(
      CriuFailureBuilder diagnosis, TreeOutcome ending) {
    if (!neverStopped(diagnosis)) {
      return Optional.empty();
    }
    return Optional.of(
        new CriuException(
            diagnosis.message(
                ending,
                "CRIU may not trace it; somebody else did, who has let go of it since",
                "look whether another dump or a debugger is at it, and try again"),
            diagnosis.failure(ending),
            diagnosis.criu(),
            null));
  }

  /** CRIU does not take this for an error. */
  private Optional<GpuCheckpointException> nobodyListens(
      CriuFailureBuilder diagnosis, TreeOutcome ending) {
    return options
        .pageServer()
        .filter(server -> diagnosis.criu().logTail().contains("Can't connect to server"))
        .map(
            server ->
                new CriuException(
                    diagnosis.message(
                        ending,
                        "no page server listens at " + server,
                        "start one there, or correct DumpOptions.pageServer"),
                    diagnosis.failure(ending),
                    diagnosis.criu(),
                    null));
  }

  /** What the command line has to say in place of an errno. */
  private boolean neverStopped(CriuFailureBuilder diagnosis) {
    return diagnosis.criu().logTail().contains("Unable to detach from " + root.pid() + ":");
  }

  private Optional<GpuCheckpointException> unsupported(
      CriuFailureBuilder diagnosis, TreeOutcome ending) {
    List<UnsupportedResource> resources =
        UnsupportedResources.find(diagnosis.errors(), diagnosis.blamed(), root, options);
    if (resources.isEmpty()) {
      return Optional.empty();
    }
    String names =
        resources.stream().map(UnsupportedResource::toString).collect(Collectors.joining(", "));
    String cures =
        resources.stream()
            .flatMap(resource -> Stream.ofNullable(resource.option()))
            .distinct()
            .map(option -> "set " + option)
            .collect(Collectors.joining(" and "));
    return Optional.of(
        new UnsupportedResourceException(
            diagnosis.message(
                ending,
                "CRIU does not dump " + names + " (" + diagnosis.reason() + ")",
                cures.isEmpty() ? "let the process close it first" : cures),
            diagnosis.failure(ending),
            diagnosis.criu(),
            resources,
            null));
  }

  private CriuFailureBuilder diagnosis() {
    return new CriuFailureBuilder("dump", subject, root.pid(), outcome, log);
  }

  static NoSuchProcessException noSuchProcess(ProcessIdentity root, @Nullable Throwable cause) {
    String what =
        Processes.stat(root)
            .filter(ProcStat::isDead)
            .map(
                stat ->
                    "process "
                        + root.pid()
                        + " has ended, it is "
                        + ProcessDescriptions.zombie(stat))
            .or(
                () ->
                    ProcessIdentity.of(root.pid())
                        .map(
                            other ->
                                "process "
                                    + root.pid()
                                    + " has ended, the pid belongs to another one now"))
            .orElse("there is no process " + root.pid());
    Failure failure = Failure.of("dump", root.pid());
    return cause instanceof GpuCheckpointException details
        ? new NoSuchProcessException(what, details.failure(), cause)
        : new NoSuchProcessException(what, failure, cause);
  }
}
