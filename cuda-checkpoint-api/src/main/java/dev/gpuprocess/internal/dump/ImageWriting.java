package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageKeptException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.extras.ImageExtras;
import dev.gpuprocess.internal.image.ImageDirectory;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.machine.MachineSurvey;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.CriuDriver;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The second phase of a dump: the members' GPU memory and CRIU's files are written. In CRIU's
 * post-dump, which holds the process frozen, the image is sealed: checksummed, synced and renamed.
 * Only then CRIU may kill the process. If anything fails, CRIU is refused, the image is removed and
 * the process stays. A snapshot is sealed later, when its process may run. For one thread.
 */
final class ImageWriting implements DumpListener {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final Dump dump;
  private final CriuDriver criu;
  private final StagedImage image;
  private final ManifestData.Options kept;
  private final BoundedDiskTask disk;
  private final ProcessIdentity root;
  private final SaveFileSteps saveFiles;

  // The outcome of post-dump.
  private @Nullable Function<List<ChecksummedFile>, ManifestData> manifest;
  private @Nullable ImageDirectory published;
  private @Nullable RuntimeException notSealed;

  /** The failure of CRIU after which the process of a snapshot may be lost. */
  private @Nullable RuntimeException mayBeLost;

  ImageWriting(
      Dump dump,
      CriuDriver criu,
      StagedImage image,
      ManifestData.Options kept,
      BoundedDiskTask disk) {
    this.dump = dump;
    this.criu = criu;
    this.image = image;
    this.kept = kept;
    this.disk = disk;
    this.root = dump.root;
    this.saveFiles = dump.saveFiles;
  }

  ImageDirectory published() {
    return afterPostDump(published);
  }

  private Function<List<ChecksummedFile>, ManifestData> manifest() {
    return afterPostDump(manifest);
  }

  private <T> T afterPostDump(@Nullable T made) {
    if (made == null) {
      throw new IllegalStateException(
          "the CRIU driver dumped process " + root.pid() + " without calling postDump");
    }
    return made;
  }

  /** Writes the image. Of a snapshot the image stays open. */
  ImageWriting run(WorkLimit limit) {
    boolean isLeftOpen = false;
    try {
      write(limit);
      if (dump.isSnapshot) {
        saveFiles.hideNames();
        isLeftOpen = manifest() != null;
      }
      return this;
    } finally {
      if (!isLeftOpen) {
        tidy(disk);
      }
    }
  }

  /** Writes all files. The pool makes no memory during this, which would slow it down. */
  private void write(WorkLimit limit) {
    // The process waits only for the checksums of an image in memory.
    boolean isSummed = !dump.isSnapshot && image.isInMemory();
    HostMemoryPool.Copies reading = dump.context.hostMemory().copying(isSummed ? 1 : 0);
    try {
      saveFiles.find(criu);
      WorkLimit copying = WorkLimit.copying(root.pid(), limit.remaining(), dump::isCancelled);
      if (!dump.isSnapshot) {
        saveFiles.copy(image, disk, copying);
      }
      saveFiles.name(image, disk);
      if (!dump.isSnapshot) {
        saveFiles.write(image, disk, copying);
      }
      callCriu();
    } finally {
      reading.close();
    }
  }

  private void callCriu() {
    try {
      DumpReport unused =
          dump.steps.run(
              "dump",
              () ->
                  criu.dump(
                      new DumpRequest(root, image.images(), image.work(), dump.options)
                          .with(dump.tree.plugin()),
                      this),
              DumpReport::bytes);
      image.logUnwanted();
    } catch (RuntimeException e) {
      failed(e);
    } catch (Error e) {
      failed(e);
    }
  }

  @Override
  public void postDump() {
    try {
      manifest = described();
      if (!dump.isSnapshot) {
        published = sealed(disk);
      }
    } catch (RuntimeException e) {
      notSealed = e;
      throw e;
    }
  }

  private ImageDirectory sealed(BoundedDiskTask sealing) {
    return dump.steps.run(
        "seal",
        () ->
            sealing.run(
                "seal",
                () -> image.publish(manifest()),
                late -> {
                  image.retractWhenClosed();
                  close();
                }),
        made -> made.manifest().bytes());
  }

  /**
   * Makes the image of a snapshot durable and gives it its name. If that fails, the image is
   * removed. The deadline begins now, because the process may have waited long for its GPU. There
   * is none if CRIU may have lost the process.
   */
  ImageDirectory publish() {
    if (mayBeLost == null) {
      return publish(dump.options.deadline(), dump::isCancelled);
    }
    try {
      return publishAtLength();
    } catch (RuntimeException | Error e) {
      e.addSuppressed(mayBeLost);
      throw e;
    }
  }

  /** Returns whether CRIU may have lost the process of this snapshot. */
  boolean mayBeLost() {
    return mayBeLost != null;
  }

  /**
   * Throws if CRIU may have lost the process of this snapshot, whose image is published.
   *
   * @throws NoSuchProcessException when the process is gone
   * @throws ImageKeptException when it is unknown whether the process is alive
   */
  void requireNotLost() {
    if (mayBeLost == null) {
      return;
    }
    switch (DumpEnd.of(root, mayBeLost, dump.context.timeouts().call())) {
      case LIVES -> {}
      case UNKNOWN -> throw kept(mayBeLost);
      case GONE ->
          throw new NoSuchProcessException(
              "process %s is gone, because CRIU failed after it had written the image, which is kept at %s: restore it (%s)"
                  .formatted(root.pid(), published().path(), mayBeLost.getMessage()),
              ended(Fate.GONE_AND_DURABLE),
              mayBeLost);
    }
  }

  /** Publishes an image whose process may be lost: without a deadline, and not cancellable. */
  ImageDirectory publishAtLength() {
    return publish(Durations.LONGEST, () -> false);
  }

  private ImageDirectory publish(Duration time, BooleanSupplier isCancelled) {
    WorkLimit copying = WorkLimit.copying(root.pid(), time, isCancelled);
    BoundedDiskTask sealing = disk.anew(time);
    try {
      saveFiles.write(image, sealing, copying);
      copying.check();
      ImageDirectory made = sealed(sealing);
      published = made;
      return made;
    } finally {
      tidy(sealing);
    }
  }

  private void tidy(BoundedDiskTask used) {
    if (!used.hangs()) {
      used.tidy("tidy", dump.context.timeouts().call(), this::close);
    }
  }

  private void close() {
    saveFiles.closeWith(image);
  }

  /** Reads everything that the image needs of the process while CRIU holds it. */
  private Function<List<ChecksummedFile>, ManifestData> described() {
    ImageMachine machine =
        disk.run(
            "describe",
            () -> {
              // No process can leave the tree while CRIU holds it.
              TreeCheck.requireInTree(dump.operation);
              dump.mounts.ifPresent(each -> each.removeHidden(image.images()));
              saveFiles.requireRecorded(image.images());
              // Where a plugin moves the GPU state there need not be a CUDA driver.
              int cuda = dump.tree.plugin() == null ? dump.context.cuda().version() : 0;
              ImageExtras extras = ImageExtras.of(root.pid(), cuda);
              image.addAll(
                  () ->
                      extras.copySharedFiles(
                          root.pid(), dump.attributes(), image.images(), dump.options.deadline()));
              extras.add(dump.attributes().carried());
              image.add(ImageExtras.FILE, extras.text());
              dump.attributes().add(extras.lost());
              return MachineSurvey.of(
                  dump.context.inventory(), root.pid(), dump.isIsolated(), extras.files());
            },
            late -> close());
    return ManifestDraft.of(
        dump.tree,
        criu,
        kept,
        dump.options.label().orElse(null),
        saveFiles.memory(),
        machine,
        dump.steps.taken(),
        dump.attributes().lost(),
        dump.clock.instant());
  }

  /** Throws the error, unless the image is complete, and the process is gone or was to continue. */
  private void failed(Error thrown) {
    RuntimeException failure = new IllegalStateException("the dump failed: " + thrown, thrown);
    try {
      failed(failure);
    } catch (RuntimeException e) {
      if (e.equals(failure)) {
        throw thrown;
      }
      throw e;
    }
  }

  /** Returns only if the image is complete, and the process is gone or was to continue. */
  private void failed(RuntimeException e) {
    boolean isComplete =
        published != null || (dump.isSnapshot && manifest != null && notSealed == null);
    // Without a complete image CRIU was not allowed to kill the process.
    DumpEnd end = isComplete ? DumpEnd.of(root, e, dump.context.timeouts().call()) : DumpEnd.LIVES;
    if (dump.isSnapshot && end != DumpEnd.LIVES) {
      // CRIU was to let the process continue. Its image is published in any case.
      mayBeLost = e;
      image.logUnwanted();
      LOG.warn(
          "the image of process {} is complete, but CRIU failed afterwards: {}",
          root.pid(),
          e.getMessage());
      return;
    }
    switch (end) {
      case LIVES -> {
        // An image of a process that continues might be restored beside it.
        image.retractWhenClosed();
        if (notSealed != null && dump.tree.mayLive()) {
          // CRIU's error and log say only that the dump was refused.
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
            "process {} is gone and its image durable, but CRIU failed afterwards: {}",
            root.pid(),
            e instanceof GpuCheckpointException known
                ? known.criu().map(CriuFailure::exit).orElseGet(known::getMessage)
                : e.getMessage());
      }
    }
  }

  private ImageKeptException kept(RuntimeException e) {
    return new ImageKeptException(
        "the image of process %s at %s is complete and on disk, but CRIU failed afterwards and it is unknown whether the process is still alive: if process %s is gone, restore the image, and if it runs, %s (%s)"
            .formatted(
                root.pid(),
                published().path(),
                root.pid(),
                dump.isSnapshot ? "go on with it" : "remove the image",
                e.getMessage()),
        ended(Fate.UNKNOWN),
        published().path(),
        e);
  }

  private Failure ended(Fate fate) {
    Failure known = dump.operation.failure(null, null);
    return new Failure(
        known.operation(), known.pid(), known.before(), null, known.elapsed(), null, fate);
  }
}
