package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.images.ParentDeathSignals;
import dev.gpuprocess.criu.internal.images.RestoreObstacles;
import dev.gpuprocess.criu.internal.links.HeldLinks;
import dev.gpuprocess.criu.internal.linux.Wakeup;
import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.Statistics;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.LogFile;
import dev.gpuprocess.criu.internal.process.MountPlace;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.criu.internal.tree.FreePids;
import dev.gpuprocess.criu.internal.tree.ProcessDescriptions;
import dev.gpuprocess.criu.internal.tree.StoppableTree;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One dump. */
public final class DumpOperation {

  private static final Logger LOG = LoggerFactory.getLogger(DumpOperation.class);

  /** The time for which a dump is repeated while the tree has connections to accept. */
  private static final Duration ACCEPT_PATIENCE = Duration.ofSeconds(3);

  /** The number of attempts that are made even if each takes longer than the patience. */
  private static final int ATTEMPTS = 3;

  private final RpcLink criu;
  private final DumpRequest request;
  private final DumpOptions options;
  private final ProcessIdentity root;
  private final String subject;
  private final Path log;
  private final DumpListener listener;
  private HeldLinks links = HeldLinks.NONE;

  public DumpOperation(RpcLink criu, DumpRequest request, DumpListener listener) {
    this.criu = criu;
    this.request = request;
    this.options = request.options();
    this.root = request.process();
    this.subject = "dump of " + ProcessDescriptions.process(root.pid());
    this.log = request.work().resolve(RpcLink.DUMP_LOG);
    this.listener = listener;
  }

  public DumpReport run() {
    checkProcess();
    checkDirectories();
    if (options.criu().isSet(CriuSwitch.MANAGE_CGROUPS)) {
      criu.command().requireRoot("dump", root.pid(), "an option of cgroups");
    }
    CallContext.requireNotCancelled(
        options.cancellation(), "dump", subject, root.pid(), Fate.RUNNING_AGAIN);
    // A leader may also have a terminal from outside, as under script(1).
    repeatWhileConnecting(true);
    if (options.endsTree()) {
      links.removeLinks(options.deadline());
    }
    return Statistics.dump(request.work());
  }

  /**
   * CRIU cannot dump a connection that the tree has not accepted. The tree runs again after such a
   * failure and accepts it, unless the listening process is stuck.
   */
  private void repeatWhileConnecting(boolean shellJob) {
    Deadline deadline = Deadline.after(options.deadline());
    try (Polling patience = new Polling(ACCEPT_PATIENCE)) {
      for (int attempt = 1; ; attempt++) {
        try {
          once(shellJob, deadline);
          return;
        } catch (DumpFailure.PendingConnectionException e) {
          boolean inTime = patience.pause() || attempt < ATTEMPTS;
          if (!inTime || deadline.passed() || e.failure().fate() != Fate.RUNNING_AGAIN) {
            throw e;
          }
          LOG.debug("repeating the {}", subject, e);
          removeImages();
        }
      }
    }
  }

  private void once(boolean shellJob, Deadline deadline) {
    DumpStages stages = new DumpStages(root, listener, this::imagesAreComplete);
    CriuResult result;
    try (Wakeup wakeup = Wakeup.by(options.cancellation())) {
      Files.deleteIfExists(request.work().resolve(Statistics.OF_DUMP));
      result =
          criu.dump(
              request,
              shellJob,
              new CallContext(
                  deadline, stages, new LogFile(log), new KillDecision(root.pid()), wakeup));
    } catch (IOException e) {
      throw CriuFailureBuilder.notBegun("dump", subject, root.pid(), e);
    }
    try {
      finish(result, stages, deadline);
    } catch (GpuCheckpointException e) {
      if (e.failure().fate() == Fate.RUNNING_AGAIN) {
        // CRIU may not have been able to remove them.
        links.removeLinks(options.deadline());
      }
      throw e;
    }
  }

  private void finish(CriuResult result, DumpStages stages, Deadline deadline) {
    DumpFailure failure = new DumpFailure(request, subject, stages, result, log);
    if (!result.success() || stages.thrown() != null) {
      failure.throwUnlessGood();
    }
    if (options.endsTree()) {
      failure.throwUnlessKilled();
      FreePids.await(
          stages.all(),
          () ->
              deadline.passed()
                  || options.cancellation().map(Cancellation::isCancelled).orElse(false));
    }
  }

  private void imagesAreComplete() {
    requireReadable();
    requireRestorable();
    links = HeldLinks.hold(request.images(), root, options);
  }

  /** Vetoes a dump whose images CRIU could not restore, while the process is still there. */
  private void requireRestorable() {
    if (imageFiles().isEmpty()) {
      return; // such a CRIU is found out by its exit
    }
    try {
      List<UnsupportedResource> obstacles = RestoreObstacles.in(request.images());
      if (!obstacles.isEmpty()) {
        throw new DumpFailure.UnrestorableException(obstacles);
      }
      ParentDeathSignals.move(request.images());
      MountPlace.record(request.images(), !criu.command().inHostMounts());
    } catch (IOException e) {
      throw new UncheckedIOException("the images cannot be checked: " + e.getMessage(), e);
    }
  }

  /**
   * Vetoes a dump whose images this user cannot read, because a CRIU of another user wrote them:
   * they could not be verified.
   */
  private void requireReadable() {
    if (CurrentUser.isRoot()) {
      return;
    }
    try {
      for (Path file : DurableFiles.list(request.images())) {
        if (!Files.isReadable(file)) {
          throw new ImageException(
              ImageException.Reason.DIRECTORY,
              "%s was refused, the process runs on: CRIU wrote %s as another user, and this user cannot read it: have CRIU run with umask 022 ('Defaults!CRIU umask=0022, umask_override' for sudo)"
                  .formatted(subject, file),
              Failure.of("dump", root.pid()));
        }
      }
    } catch (IOException e) {
      throw new ImageException(
          ImageException.Reason.DIRECTORY,
          "%s was refused, the process runs on: the images cannot be listed: %s"
              .formatted(subject, e.getMessage()),
          Failure.of("dump", root.pid()),
          e);
    }
  }

  private void checkProcess() {
    if (root.pid() <= 1) {
      throw new IllegalArgumentException("pid " + root.pid() + " cannot be dumped");
    }
    int self = Math.toIntExact(ProcessHandle.current().pid());
    List<Integer> descendants = ProcFs.descendants(root.pid());
    if (root.pid() == self || descendants.contains(self)) {
      throw new IllegalArgumentException(
          "process " + root.pid() + " is this JVM or one of its ancestors");
    }
    Optional<ProcStat> stat = Processes.stat(root);
    if (stat.isEmpty() || stat.get().isDead()) {
      throw DumpFailure.noSuchProcess(root, null);
    }
    new StoppableTree(subject, root.pid(), options).require(descendants);
  }

  private void checkDirectories() {
    for (Path directory : new Path[] {request.images(), request.work()}) {
      if (!Files.isDirectory(directory)) {
        throw directoryProblem(
            directory, Files.exists(directory) ? "is not a directory" : "does not exist", null);
      }
      if (!Files.isWritable(directory)) {
        throw directoryProblem(directory, "cannot be written to", null);
      }
    }
    if (!imageFiles().isEmpty()) {
      throw directoryProblem(request.images(), "is not empty", null);
    }
  }

  private void removeImages() {
    for (Path file : imageFiles()) {
      try {
        Files.delete(file);
      } catch (IOException e) {
        throw directoryProblem(
            request.images(), "cannot be emptied for another attempt: " + e.getMessage(), e);
      }
    }
  }

  private List<Path> imageFiles() {
    try {
      return DurableFiles.list(request.images()).stream()
          .filter(entry -> !entry.equals(request.work()))
          .toList();
    } catch (IOException e) {
      throw directoryProblem(request.images(), "cannot be read: " + e.getMessage(), e);
    }
  }

  private ImageException directoryProblem(
      Path directory, String problem, @Nullable Throwable cause) {
    return new ImageException(
        ImageException.Reason.DIRECTORY,
        subject + " did not begin: " + directory + " " + problem,
        Failure.of("dump", root.pid()),
        cause);
  }
}
