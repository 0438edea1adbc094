package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.image.ImageDirectory;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.image.StagedImage;
import dev.gpuprocess.proc.ProcFs;
import dev.gpuprocess.proc.ScanLimit;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpReport;
import dev.gpuprocess.spi.DumpRequest;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
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

  private static final int LONGEST_MESSAGE = 8000;

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
    Path place = directory.toAbsolutePath();
    // Its time begins here: what is looked at before is part of the dump.
    DiskWork disk = new DiskWork("dump", pid, place, options.deadline());
    disk.admit();
    List<Integer> children = ProcFs.descendants(pid);
    ScanLimit limit = ScanLimit.of("dump", pid, options.deadline());
    new TreeCheck(verb, limit).require(children);
    CriuDriver criu = target.checkpoints.criu();
    refuseWhatCannotBeDumped(criu, limit);
    Manifest.Options kept = keptOptions();
    // Before the first directory is made, so that a recovery knows where to look.
    target.note("dump", place, null);
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
      ended(image, e);
    }
  }

  /** Returns when the process is gone: then its image is all there is of it, and good. */
  private void ended(StagedImage image, RuntimeException e) {
    DumpEnd end =
        published == null
            ? DumpEnd.LIVES // or not, but not because of us
            : DumpEnd.of(target.identity, e, target.checkpoints.timeouts().call());
    switch (end) {
      case LIVES -> {
        // An image of a process that lives on would be restored beside it one day.
        image.retractWhenClosed();
        if (notSealed != null && target.identity.isAlive()) {
          // CRIU only says that we refused it, and its log no more than that.
          image.logUnwanted();
          throw notSealed;
        }
        image.endedWith(e);
        throw e;
      }
      case UNKNOWN -> {
        image.endedWith(e);
        throw kept(e);
      }
      case GONE -> {
        image.logUnwanted();
        LOG.warn(
            "process {} is gone and its image durable, but CRIU's end was not clean: {}",
            target.pid(),
            e instanceof CriuException unclean ? unclean.criu().exit() : e.getMessage());
      }
    }
  }

  private ImageKeptException kept(RuntimeException e) {
    Failure known = verb.failure(null, null);
    return new ImageKeptException(
        "the image of process %s at %s is complete and on disk, but CRIU did not end well and the process may or may not live on: once process %s is gone restore the image, and if it runs on remove the image (%s)"
            .formatted(target.pid(), requirePublished().path(), target.pid(), e.getMessage()),
        new Failure(
            known.operation(),
            known.pid(),
            known.before(),
            null,
            known.elapsed(),
            null,
            Fate.UNKNOWN),
        requirePublished().path(),
        e);
  }

  /** CRIU would find these too, but after it had stopped the tree, and by number, not by name. */
  private void refuseWhatCannotBeDumped(CriuDriver criu, ScanLimit limit) {
    DumpOptions inTime = options.toBuilder().deadline(limit.remaining()).build();
    List<Finding> findings =
        criu.preflight(target.identity, inTime).stream().filter(Finding::isProblem).toList();
    List<UnsupportedResource> resources =
        findings.stream().flatMap(finding -> Stream.ofNullable(finding.resource())).toList();
    if (!resources.isEmpty()) {
      throw new UnsupportedResourceException(
          "process %s cannot be dumped and stays checkpointed: %s"
              .formatted(target.pid(), words(findings)),
          verb.failure(null, ProcessState.CHECKPOINTED),
          CriuFailure.NOT_STARTED,
          resources,
          null);
    }
  }

  /** The first few are enough for a message; all of them are in its data. */
  private static String words(List<Finding> findings) {
    List<String> all =
        findings.stream()
            .filter(finding -> finding.resource() != null)
            .map(Finding::toString)
            .toList();
    StringBuilder text = new StringBuilder();
    int told = 0;
    while (told < all.size() && text.length() + all.get(told).length() < LONGEST_MESSAGE) {
      text.append(told == 0 ? "" : ". ").append(all.get(told++));
    }
    if (told == 0) {
      text.append(all.get(told++), 0, LONGEST_MESSAGE).append("...");
    }
    return told == all.size()
        ? text.toString()
        : text + ". And %s more".formatted(all.size() - told);
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
                          () -> {
                            image.add(CarriedState.FILE, CarriedState.of(target.pid()).text());
                            return image.publish(files -> manifest(criu, kept, files));
                          },
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
    Holdings held = target.held();
    if (held.complete()) {
      held.known().forEach((gpu, bytes) -> gpuBytes.put(gpu.text(), bytes));
    }
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
