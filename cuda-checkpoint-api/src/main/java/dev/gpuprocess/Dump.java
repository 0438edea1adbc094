package dev.gpuprocess;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.image.ImageDirectory;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.StagedImage;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpReport;
import dev.gpuprocess.spi.DumpRequest;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A dump of a checkpointed process into an image. The image is durable before CRIU is let kill the
 * process; if that fails, the image goes and the process stays.
 */
final class Dump {

  private static final Logger LOG = LoggerFactory.getLogger(GpuProcess.class);

  private final Verb verb;
  private final Target target;
  private final DumpOptions options;
  private final Steps steps;
  private @Nullable ImageDirectory published;
  private @Nullable RuntimeException notSealed;

  Dump(Verb verb, Target target, DumpOptions options, Steps steps) {
    this.verb = verb;
    this.target = target;
    this.options = options;
    this.steps = steps;
  }

  ProcessImage into(Path directory) {
    int pid = target.pid();
    requireOwnMemory();
    List<Integer> children = ProcFs.descendants(pid);
    children.forEach(child -> TreeCheck.requireNoGpu(verb, child));
    CriuDriver criu = target.checkpoints.criu();
    refuseWhatCannotBeDumped(criu);
    Manifest.Options kept = keptOptions();
    // Before the first directory is made, so that a recovery knows where to look.
    Path place = directory.toAbsolutePath();
    target.note("dump", place, null);
    DiskWork disk = new DiskWork("dump", pid, place, options.deadline());
    try {
      long bytes = expectedBytes(children);
      StagedImage image = disk.run("stage", () -> stage(directory, bytes), Dump::close);
      try {
        target.note("dump", place, image.work());
        dump(criu, image, kept, disk);
      } finally {
        if (!disk.hangs()) {
          disk.tidy("tidy", target.checkpoints.timeouts().call(), image::close);
        }
      }
    } catch (RuntimeException e) {
      target.noteState(verb.stateNow());
      throw e;
    }
    return new ProcessImage(target.checkpoints, requirePublished(), steps.taken());
  }

  /** The process may die for what is complete and durable here, and for nothing else. */
  private void requireOwnMemory() {
    if (options.pageServer().isPresent() || options.lazyPages().isPresent()) {
      throw new IllegalArgumentException(
          "an image with a manifest holds its own memory: dump without pageServer and lazyPages,"
              + " or with CriuDriver.dump");
    }
  }

  private StagedImage stage(Path directory, long bytes) {
    return StagedImage.create(directory, target.identity, bytes, target.checkpoints.imageKey());
  }

  private static void close(@Nullable StagedImage image) {
    if (image != null) {
      image.close();
    }
  }

  private void dump(CriuDriver criu, StagedImage image, Manifest.Options kept, DiskWork disk) {
    try {
      steps.run("dump", () -> criuDump(criu, image, kept, disk), DumpReport::bytes);
      image.logUnwanted();
    } catch (RuntimeException e) {
      if (notSealed != null && target.identity.isAlive()) {
        // CRIU only says that we refused it, and its log no more than that.
        image.logUnwanted();
        throw notSealed;
      }
      if (published == null || target.identity.isAlive()) {
        // An image of a process that lives on would be restored beside it one day.
        image.retractWhenClosed();
        image.endedWith(e);
        throw e;
      }
      image.logUnwanted();
      LOG.warn(
          "process {} is gone and its image durable, but CRIU's end was not clean: {}",
          target.pid(),
          e instanceof CriuException unclean ? unclean.criu().exit() : e.getMessage());
    }
  }

  /** CRIU would find these too, but after it had stopped the tree, and by number, not by name. */
  private void refuseWhatCannotBeDumped(CriuDriver criu) {
    List<Finding> findings =
        criu.preflight(target.identity, options).stream().filter(Finding::isProblem).toList();
    List<UnsupportedResource> resources =
        findings.stream().flatMap(finding -> Stream.ofNullable(finding.resource())).toList();
    if (!resources.isEmpty()) {
      throw new UnsupportedResourceException(
          "process %d cannot be dumped and stays checkpointed: %s"
              .formatted(
                  target.pid(),
                  findings.stream()
                      .filter(finding -> finding.resource() != null)
                      .map(Finding::toString)
                      .collect(Collectors.joining(". "))),
          verb.failure(null, ProcessState.CHECKPOINTED),
          CriuFailure.NOT_STARTED,
          resources,
          null);
    }
  }

  private DumpReport criuDump(
      CriuDriver criu, StagedImage image, Manifest.Options kept, DiskWork disk) {
    return criu.dump(
        new DumpRequest(target.identity, image.images(), image.work(), options),
        new DumpListener() {
          @Override
          public void postDump() {
            try {
              seal();
            } catch (RuntimeException e) {
              notSealed = e;
              throw e;
            }
          }

          private void seal() {
            steps.run(
                "seal",
                () -> {
                  published =
                      disk.run(
                          "seal",
                          () -> image.publish(files -> manifest(criu, kept, files)),
                          made -> {
                            image.retractWhenClosed();
                            image.close();
                          });
                  return published;
                },
                made -> made.manifest().bytes());
          }
        });
  }

  private ImageDirectory requirePublished() {
    if (published == null) {
      throw new IllegalStateException(
          "the CRIU driver dumped process " + target.pid() + " without telling postDump");
    }
    return published;
  }

  private long expectedBytes(List<Integer> children) {
    return ProcFs.anonymousBytes(target.pid())
        + children.stream().mapToLong(ProcFs::anonymousBytes).sum();
  }

  private Manifest.Options keptOptions() {
    boolean shellJob = target.identity.stat().map(stat -> !stat.leadsSession()).orElse(false);
    return KeptOptions.of(options, shellJob);
  }

  private Manifest manifest(CriuDriver criu, Manifest.Options kept, List<ImageFile> files) {
    Map<String, Long> gpuBytes = new TreeMap<>();
    target.held().forEach((GpuUuid gpu, Long bytes) -> gpuBytes.put(gpu.text(), bytes));
    return new Manifest(
        Manifest.FORMAT,
        Instant.now(),
        target.pid(),
        target.identity.startTicks(),
        ProcFs.commandLine(target.pid()),
        gpuBytes,
        target.checkpoints.cuda().version(),
        target.checkpoints.inventory().driverVersion().orElse(""),
        criu.version().toString(),
        System.getProperty("os.version"),
        kept,
        options.label().orElse(null),
        files);
  }
}
