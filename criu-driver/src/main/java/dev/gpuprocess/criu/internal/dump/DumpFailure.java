package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.tree.ProcessDescriptions;
import dev.gpuprocess.criu.internal.tree.Tracer;
import dev.gpuprocess.criu.internal.tree.TreeFate;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpRequest;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Determines the fate of a tree whose dump failed, and throws the exception. */
final class DumpFailure {

  private static final Logger LOG = LoggerFactory.getLogger(DumpFailure.class);

  /** CRIU's errors when it cannot trace a task. */
  private static final List<String> TRACING = List.of("SEIZE", "seize", "ptrace", "trace");

  private final DumpOptions options;
  private final ProcessIdentity root;
  private final String subject;
  private final DumpStages stages;
  private final CriuResult result;
  private final Path log;

  DumpFailure(DumpRequest request, String subject, DumpStages stages, CriuResult result, Path log) {
    this.options = request.options();
    this.root = request.process();
    this.subject = subject;
    this.stages = stages;
    this.result = result;
    this.log = log;
  }

  /** Returns only if the dump is good: CRIU died after its work was done. */
  void throwUnlessGood() {
    boolean mayDie = stages.mayBeKilled() && options.endsTree();
    TreeFate fate;
    try {
      fate = TreeFate.of(stages.tree(), mayDie);
      if (fate == TreeFate.RUNS && (mayDie || result.crashed() || result.givenUp() != null)) {
        fate = TreeFate.onceItHasRun(stages.tree(), mayDie);
      }
    } catch (NativeCallException | ProcessUnreadableException e) {
      throw builder()
          .general(new TreeOutcome(Fate.UNKNOWN, "the fate of the process is unknown"), e);
    }
    if (mayDie && stages.thrown() == null && (fate == TreeFate.GONE || fate == TreeFate.DYING)) {
      LOG.warn(
          "{} is done, but CRIU failed after the images were complete: {}",
          subject,
          result.givenUp() == null ? result.exit() : result.givenUp().reason());
      return;
    }
    throw exception(outcome(fate, mayDie));
  }

  private static TreeOutcome outcome(TreeFate fate, boolean mayDie) {
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
                  ? "the images are complete, and the process is still traced or frozen, so it may still die"
                  : "the process is still stopped, traced or frozen");
    };
  }

  /** Throws if CRIU reports success but the tree still exists. */
  void throwUnlessKilled() {
    if (TreeFate.awaitKill(stages.tree())) {
      return;
    }
    TreeOutcome outcome;
    try {
      TreeFate fate = TreeFate.of(stages.tree(), true);
      if (fate == TreeFate.GONE || fate == TreeFate.DYING) {
        return;
      }
      outcome = outcome(fate, true);
    } catch (NativeCallException | ProcessUnreadableException e) {
      LOG.debug("{}", subject, e);
      outcome = new TreeOutcome(Fate.UNKNOWN, "the fate of the process is unknown");
    }
    throw new CriuException(
        subject
            + " is done, but the process still exists although CRIU killed it: "
            + outcome.words(),
        builder().failure(outcome),
        builder().criu(),
        null);
  }

  private GpuCheckpointException exception(TreeOutcome outcome) {
    CriuFailureBuilder builder = builder();
    Throwable thrown = stages.thrown();
    if (thrown instanceof UnrestorableException unrestorable) {
      return unsupported(
          builder,
          outcome,
          "CRIU dumps and cannot restore ",
          "",
          unrestorable.resources,
          "start the process without it");
    }
    if (thrown != null) {
      return builder.thrownByListener(outcome, thrown);
    }
    if (result.errno() == Libc.ESRCH || neverStopped(builder)) {
      CriuException details = builder.general(outcome, null);
      if (!root.isAlive()) {
        return noSuchProcess(root, details);
      }
      Optional<Tracer> tracer = Tracer.of(root.pid());
      if (tracer.isPresent()) {
        return new CriuException(
            builder.message(outcome, tracer.get().what(), tracer.get().cure()),
            details.failure(),
            builder.criu(),
            null);
      }
    }
    return builder
        .typed(outcome, options.deadline())
        .or(() -> pendingConnection(builder, outcome))
        .or(() -> unsupported(builder, outcome))
        .or(() -> tracedBefore(builder, outcome))
        .orElseGet(() -> builder.exception(outcome, options.deadline()));
  }

  /**
   * Another tracer, such as a second CRIU, that has detached since; the log mentions it only in
   * warnings.
   */
  private Optional<GpuCheckpointException> tracedBefore(
      CriuFailureBuilder builder, TreeOutcome outcome) {
    if (!neverStopped(builder)) {
      return Optional.empty();
    }
    return Optional.of(
        new CriuException(
            builder.message(
                outcome,
                "CRIU could not trace it because another tracer was attached, which has detached since",
                "check whether another dump or a debugger is working on it, and try again"),
            builder.failure(outcome),
            builder.criu(),
            null));
  }

  /**
   * Returns the failure that a repeated dump may avoid, because the tree accepts the connection.
   */
  private static Optional<GpuCheckpointException> pendingConnection(
      CriuFailureBuilder builder, TreeOutcome outcome) {
    return builder.errors().stream()
        .filter(error -> error.contains("in-flight socket"))
        .findFirst()
        .map(
            error ->
                new PendingConnectionException(
                    builder.message(
                        outcome,
                        "a connection to one of its unix sockets was not accepted yet (%s)"
                            .formatted(error),
                        "try again once the listening process has accepted it"),
                    builder.failure(outcome),
                    builder.criu()));
  }

  /** Returns whether CRIU could not stop the root, by its log if the errno is missing. */
  private boolean neverStopped(CriuFailureBuilder builder) {
    if (!builder.errors().isEmpty()
        && builder.errors().stream().noneMatch(DumpFailure::isOfTracing)) {
      return false; // such as a plugin that it failed to load, or a file that it failed to read
    }
    return builder.criu().logTail().contains("Unable to detach from " + root.pid() + ":");
  }

  private static boolean isOfTracing(String error) {
    return TRACING.stream().anyMatch(error::contains);
  }

  private Optional<GpuCheckpointException> unsupported(
      CriuFailureBuilder builder, TreeOutcome outcome) {
    List<UnsupportedResource> resources =
        UnsupportedResources.find(builder.errors(), builder.blamed(), root, options);
    if (resources.isEmpty()) {
      return Optional.empty();
    }
    String cures =
        resources.stream()
            .flatMap(resource -> Stream.ofNullable(resource.option()))
            .distinct()
            .map(option -> "use " + option)
            .collect(Collectors.joining(" and "));
    return Optional.of(
        unsupported(
            builder,
            outcome,
            "CRIU does not dump ",
            " (" + builder.reason() + ")",
            resources,
            cures.isEmpty() ? "let the process close it first" : cures));
  }

  private static CriuException unsupported(
      CriuFailureBuilder builder,
      TreeOutcome outcome,
      String what,
      String why,
      List<UnsupportedResource> resources,
      String cure) {
    String names =
        resources.stream().map(UnsupportedResource::toString).collect(Collectors.joining(", "));
    return CriuException.unsupportedResource(
        builder.message(outcome, what + names + why, cure),
        builder.failure(outcome),
        builder.criu(),
        resources,
        null);
  }

  private CriuFailureBuilder builder() {
    return new CriuFailureBuilder("dump", subject, root.pid(), result, log);
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
                                    + " has ended, and its pid now belongs to another process"))
            .orElse("there is no process " + root.pid());
    Failure failure =
        cause instanceof GpuCheckpointException details
            ? details.failure()
            : Failure.of("dump", root.pid());
    return new NoSuchProcessException(what, failure, cause);
  }

  /**
   * A connection to a unix socket of the tree had not been accepted when CRIU stopped the tree.
   * CRIU cannot dump what was sent over such a connection.
   */
  static final class PendingConnectionException extends CriuException {

    private static final long serialVersionUID = 1L;

    PendingConnectionException(String message, Failure failure, CriuFailure criu) {
      super(message, failure, criu, null);
    }
  }

  /** The images are complete, and CRIU could not restore them. */
  static final class UnrestorableException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    @SuppressWarnings("serial") // an immutable copy, which is serializable
    private final List<UnsupportedResource> resources;

    UnrestorableException(List<UnsupportedResource> resources) {
      this.resources = List.copyOf(resources);
    }
  }
}
