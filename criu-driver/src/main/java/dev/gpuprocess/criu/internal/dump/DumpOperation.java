package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.links.HeldLinks;
import dev.gpuprocess.criu.internal.log.DumpReports;
import dev.gpuprocess.criu.internal.log.StatsFile;
import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.Wakeup;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.LogLimit;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.criu.internal.tree.FreePids;
import dev.gpuprocess.criu.internal.tree.ProcessDescriptions;
import dev.gpuprocess.criu.internal.tree.TreeAtRest;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.process.Processes;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** One dump. */
public final class DumpOperation {

  private final RpcLink criu;
  private final DumpRequest request;
  private final DumpOptions options;
  private final ProcessIdentity root;
  private final String subject;
  private final Path log;
  private final DumpStages stages;
  private HeldLinks links = HeldLinks.NONE;

  public DumpOperation(RpcLink criu, DumpRequest request, DumpListener listener) {
    this.criu = criu;
    this.request = request;
    this.options = request.options();
    this.root = request.process();
    this.subject = "dump of " + ProcessDescriptions.process(root.pid());
    this.log = request.work().resolve(RpcLink.DUMP_LOG);
    this.stages = new DumpStages(root, listener, this::imagesAreComplete);
  }

  public DumpReport run() {
    ProcStat stat = checkProcess();
    checkDirectories();
    CriuResult result;
    try (Wakeup wakeup = Wakeup.by(options.cancellation())) {
      Files.deleteIfExists(log);
      Files.deleteIfExists(request.work().resolve(StatsFile.DUMP));
      result =
          criu.dump(
              request,
              !stat.leadsSession(),
              new CallContext(
                  Deadline.after(options.deadline()),
                  stages,
                  new LogLimit(log),
                  new KillMoment(root.pid()),
                  wakeup));
    } catch (IOException e) {
      throw new CriuUnavailableException(
          subject + " did not begin: " + e.getMessage(), Failure.of("dump", root.pid()), e);
    }
    try {
      finish(result);
    } catch (GpuCheckpointException e) {
      if (e.failure().fate() == Fate.RUNNING_AGAIN) {
        // CRIU may not have been able to remove them itself.
        links.removeLinks();
      }
      throw e;
    }
    if (options.endsTree()) {
      links.removeLinks();
    }
    return DumpReports.read(request.work());
  }

  private void finish(CriuResult result) {
    DumpFailure failure = new DumpFailure(request, subject, stages, result, log);
    if (!result.success() || stages.thrown() != null) {
      failure.throwUnlessGood();
    }
    if (options.endsTree()) {
      failure.throwUnlessKilled();
      FreePids.await(stages.all());
    }
  }

  private void imagesAreComplete() {
    ReadableImages.require(subject, request);
    links = HeldLinks.hold(request.images(), root, options);
  }

  private ProcStat checkProcess() {
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
    new TreeAtRest(subject, root.pid(), options).require(descendants);
    return stat.get();
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
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(request.images())) {
      for (Path entry : entries) {
        if (!entry.equals(request.work())) {
          throw directoryProblem(request.images(), "is not empty", null);
        }
      }
    } catch (IOException | DirectoryIteratorException e) {
      throw directoryProblem(request.images(), "cannot be read: " + e.getMessage(), e);
    }
  }

  private ImageDirectoryException directoryProblem(
      Path directory, String problem, @Nullable Throwable cause) {
    return new ImageDirectoryException(
        subject + " did not begin: " + directory + " " + problem,
        Failure.of("dump", root.pid()),
        cause);
  }
}
