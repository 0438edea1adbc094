package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.links.HeldLinks;
import dev.gpuprocess.criu.internal.log.DumpReports;
import dev.gpuprocess.criu.internal.log.StatsFile;
import dev.gpuprocess.criu.internal.os.Deadline;
import dev.gpuprocess.criu.internal.os.Wakeup;
import dev.gpuprocess.criu.internal.process.CallContext;
import dev.gpuprocess.criu.internal.process.CriuResult;
import dev.gpuprocess.criu.internal.process.LogLimit;
import dev.gpuprocess.criu.internal.rpc.FeatureCheck;
import dev.gpuprocess.criu.internal.rpc.RpcLink;
import dev.gpuprocess.criu.internal.tree.FreePids;
import dev.gpuprocess.criu.internal.tree.ProcessDescriptions;
import dev.gpuprocess.criu.internal.tree.TreeAtRest;
import dev.gpuprocess.dumped.DumpReport;
import dev.gpuprocess.error.CriuFeature;
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

/** One dump, or one pre-dump. */
public final class DumpOperation {

  /** How the request reaches CRIU. */
  public interface Call {
    CriuResult make(DumpRequest request, boolean shellJob, CallContext context) throws IOException;
  }

  private final RpcLink criu;
  private final Call call;
  private final boolean whole;
  private final DumpRequest request;
  private final DumpOptions options;
  private final ProcessIdentity root;
  private final String subject;
  private final Path log;
  private final DumpStages stages;
  private HeldLinks links = HeldLinks.NONE;

  public DumpOperation(RpcLink criu, DumpRequest request, DumpListener listener) {
    this(criu, criu::dump, true, request, listener);
  }

  /** A dump made by the given call. */
  public static DumpOperation dump(
      RpcLink criu, Call call, DumpRequest request, DumpListener listener) {
    return new DumpOperation(criu, call, true, request, listener);
  }

  /** Takes only the memory; the tree runs on. */
  public static DumpOperation preDump(RpcLink criu, Call call, DumpRequest request) {
    if (request.memory().lazyPages() != null || request.options().leaveStopped()) {
      throw new IllegalArgumentException(
          "a pre-dump takes the memory of a tree that runs on: pre-dump without lazyPages and"
              + " leaveStopped");
    }
    return new DumpOperation(criu, call, false, request, DumpListener.NONE);
  }

  private DumpOperation(
      RpcLink criu, Call call, boolean whole, DumpRequest request, DumpListener listener) {
    this.criu = criu;
    this.call = call;
    this.whole = whole;
    this.request = request;
    this.options = request.options();
    this.root = request.process();
    this.subject = (whole ? "dump of " : "pre-dump of ") + ProcessDescriptions.process(root.pid());
    this.log = request.work().resolve(RpcLink.DUMP_LOG);
    this.stages =
        new DumpStages(
            root, listener, request.memory().lazyPages() != null, this::imagesAreComplete);
  }

  public DumpReport run() {
    ProcStat stat = checkProcess();
    checkDirectories();
    requireFeatures();
    CriuResult result;
    try (Wakeup wakeup = Wakeup.by(options.cancellation())) {
      Files.deleteIfExists(log);
      Files.deleteIfExists(request.work().resolve(StatsFile.DUMP));
      result =
          call.make(
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
    if (whole && options.endsTree()) {
      links.removeLinks();
    }
    return DumpReports.read(request.work());
  }

  private void finish(CriuResult result) {
    DumpFailure failure = new DumpFailure(request, subject, stages, result, log);
    if (!result.success() || stages.thrown() != null) {
      failure.throwUnlessGood();
    }
    if (whole && options.endsTree()) {
      failure.throwUnlessKilled();
      FreePids.await(stages.all());
    }
  }

  private void imagesAreComplete() {
    ReadableImages.require(subject, request);
    if (whole) {
      links = HeldLinks.hold(request.images(), root, options);
    }
  }

  private void requireFeatures() {
    if (request.memory().trackMemory() || !whole) {
      require(CriuFeature.MEMORY_TRACKING);
    }
    if (request.memory().lazyPages() != null) {
      require(CriuFeature.LAZY_PAGES);
      PipeSize.require(criu.command(), subject, Failure.of("dump", root.pid()));
    }
  }

  private void require(CriuFeature feature) {
    Failure failure = Failure.of("dump", root.pid());
    FeatureCheck.require(criu.features(), feature, subject, failure);
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
