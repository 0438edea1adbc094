package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.engine.Member;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.handover.CopyLimit;
import dev.gpuprocess.internal.handover.DiskWork;
import dev.gpuprocess.internal.handover.MemoryHandOver;
import dev.gpuprocess.internal.handover.NotHeldException;
import dev.gpuprocess.internal.store.StagedImage;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The step of a dump in which the process's GPU memory, which is in its host memory now, goes into
 * a file of the image and is mapped from there. Where that cannot be done CRIU dumps it.
 */
final class HandOverStep {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String BY_CRIU = "CRIU dumps it: ";

  /** Memory is handed over only if the driver was seen to map it. */
  private static final String UNKNOWN =
      "the driver was not seen to map memory for it at the checkpoint";

  /** Memory does not hang. */
  private static final DiskWork AT_ONCE =
      new DiskWork() {
        @Override
        public <T> T run(Supplier<T> work, Consumer<@Nullable T> undo) {
          return work.get();
        }
      };

  private final TrackedProcess target;
  private final int number;
  private final DumpOptions options;
  private final StepRecorder steps;
  private final SpoolStep spool;
  private @Nullable MemoryHandOver handOver;

  /**
   * Prepares; nothing is done yet.
   *
   * @param number that of the process among those of the image, from 1
   */
  HandOverStep(Member member, int number, DumpOptions options) {
    this.target = member.target();
    this.number = number;
    this.options = options;
    this.steps = member.steps();
    this.spool = new SpoolStep(target.pid(), number);
  }

  int pid() {
    return target.pid();
  }

  /**
   * Looks which memory there is to hand over.
   *
   * @return how many bytes; 0 for none
   */
  long look() {
    try {
      MemoryHandOver planned =
          new MemoryHandOver(
              target.identity, number, options.handOver() ? target.areas() : List.of());
      handOver = planned.bytes() > 0 ? planned : null;
      return planned.bytes();
    } catch (ProcessUnreadableException e) {
      LOG.info("process {}: CRIU dumps all of its memory: {}", target.pid(), e.getMessage());
      return 0;
    }
  }

  /**
   * Does it where it can be done. To be called after {@link #look}.
   *
   * @param left for all of it
   * @throws UnsupportedResourceException when it cannot be done, and the process has memory in a
   *     file of an earlier image
   */
  void run(
      CriuDriver criu, StagedImage image, BoundedDiskTask disk, Duration left, SpoolChoice choice) {
    MemoryHandOver planned = handOver;
    if (planned == null) {
      if (options.handOver()) {
        steps.runNoted("hand over", 0, () -> BY_CRIU + UNKNOWN);
      }
      return;
    }
    Optional<String> obstacle =
        steps.run(
            "hand over",
            () -> obstacle(criu, planned, image).or(() -> run(planned, image, disk, left, choice)),
            why -> moved(planned),
            why -> why.map(reason -> BY_CRIU + reason).orElseGet(spool::note));
    if (obstacle.isPresent()) {
      handOver = null;
      if (planned.isNeeded()) {
        throw mapped(target.pid(), target.pid(), obstacle.get());
      }
    }
  }

  private static long moved(MemoryHandOver planned) {
    return planned.file().isPresent() ? planned.bytes() : 0;
  }

  private static Optional<String> obstacle(
      CriuDriver criu, MemoryHandOver planned, StagedImage image) {
    return criu.takesDescriptors()
        ? planned.obstacle(image.images())
        : Optional.of(
            "CRIU gets no descriptors of this JVM at a restore, as when it is run through sudo");
  }

  /** Returns why it was not begun; empty when it is done. */
  private Optional<String> run(
      MemoryHandOver planned,
      StagedImage image,
      BoundedDiskTask disk,
      Duration left,
      SpoolChoice choice) {
    Optional<Path> inMemory = spool.make(choice);
    Path directory =
        inMemory.orElseGet(
            () ->
                disk.run(
                    "make memory directory", image::makeMemoryDirectory, late -> image.close()));
    try {
      planned.run(
          directory,
          options.endsTree(),
          image.checksum(),
          limit(left),
          left,
          inMemory.isPresent() ? AT_ONCE : bounded(disk, image));
      spool.keep();
    } catch (NotHeldException e) {
      if (inMemory.isPresent()) {
        spool.close();
      } else {
        image.removeMemory(planned.name());
      }
      return Optional.of(String.valueOf(e.getMessage()));
    } catch (IOException e) {
      throw inMemory.isPresent() ? spool.failed(e) : image.incomplete(e);
    }
    if (inMemory.isEmpty()) {
      planned.file().ifPresent(image::addMemory);
    }
    return Optional.empty();
  }

  private CopyLimit limit(Duration left) {
    return new CopyLimit(target.pid(), left, options.cancellation().orElse(null));
  }

  private static DiskWork bounded(BoundedDiskTask disk, StagedImage image) {
    return new DiskWork() {
      @Override
      public <T> T run(Supplier<T> work, Consumer<@Nullable T> undo) {
        return disk.run(
            "hand over",
            work,
            late -> {
              undo.accept(late);
              image.close();
            });
      }
    };
  }

  /** CRIU has written its files: nobody needs the name of a spool any more. */
  void hideSpool() {
    spool.hide();
  }

  /**
   * Copies into the image what is in a spool yet. The process may run meanwhile.
   *
   * @param undo called when that ends after this has thrown
   */
  void write(
      StagedImage image, BoundedDiskTask disk, CopyLimit limit, Consumer<@Nullable Boolean> undo) {
    ImageFile file = handOver == null ? null : handOver.file().orElse(null);
    if (file != null && spool.isUsed()) {
      steps.run("write", file.bytes(), () -> write(image, file, limit, disk, undo));
    }
  }

  private void write(
      StagedImage image,
      ImageFile file,
      CopyLimit limit,
      BoundedDiskTask disk,
      Consumer<@Nullable Boolean> undo) {
    boolean unused =
        disk.run(
            "write",
            () -> {
              spool.write(image, file, limit);
              return true;
            },
            undo);
  }

  /** Lets the spool go. Does nothing where there is none. */
  void close() {
    spool.close();
  }

  /** A process has memory in a file of an earlier image, and it cannot be copied. */
  static GpuCheckpointException mapped(int root, int pid, @Nullable String obstacle) {
    return new UnsupportedResourceException(
        "process %s has memory in a file of an earlier image, which the new image would need, and it cannot be copied: %s"
            .formatted(pid, obstacle),
        Failure.of("dump", root),
        CriuFailure.NOT_STARTED,
        List.of(new UnsupportedResource(pid, "mapping", MemoryFile.DIRECTORY, null)),
        null);
  }

  /** What was handed over, for the manifest; empty for nothing. */
  Optional<MemoryFile> memory() {
    return Optional.ofNullable(handOver).flatMap(MemoryHandOver::memory);
  }

  /**
   * Checks that CRIU saw the file under the name that the manifest has, since a restore tells it to
   * take our descriptor for that name.
   *
   * @param images CRIU's files
   * @throws ImageException when it did not
   */
  void requireRecorded(Path images) {
    Optional<MemoryFile> memory = memory();
    if (memory.isPresent() && !RecordedName.isIn(images, memory.get().mappedAs())) {
      throw new ImageException(
          "process %s was not dumped: CRIU saw its memory in another file than %s, as when a directory above the image is renamed meanwhile: try again"
              .formatted(target.pid(), memory.get().mappedAs()),
          Failure.of("dump", target.pid()));
    }
  }

  /** The same as {@link #putBack} after a failure, which may be that of a disk that hangs. */
  void putBackAfter(BoundedDiskTask disk) {
    if (spool.isUsed()) {
      // A snapshot is resumed at once, which frees the memory.
      handOver = null;
      spool.close();
      return;
    }
    if (handOver != null && disk.hangs()) {
      LOG.warn(
          "process {} keeps memory in a file of its image, as the disk does not answer",
          target.pid());
      return;
    }
    putBack();
  }

  /** Gives the process, which lives on, memory of its own again. Does nothing the second time. */
  void putBack() {
    MemoryHandOver undone = handOver;
    handOver = null;
    try {
      if (undone != null && target.identity.isAlive()) {
        undone.putBack(target.context.timeouts().transfer());
      }
    } catch (IOException | RuntimeException e) {
      LOG.warn(
          "process {} keeps memory in a file of its image, which takes room until the process is resumed or ends: {}",
          target.pid(),
          e.getMessage());
    }
  }
}
