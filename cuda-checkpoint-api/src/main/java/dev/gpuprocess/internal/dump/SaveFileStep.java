package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResourceException;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.memory.DriverHook;
import dev.gpuprocess.internal.engine.Member;
import dev.gpuprocess.internal.engine.ProcessOperation;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.memory.OwnMemory;
import dev.gpuprocess.internal.memory.SaveFiles;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The GPU memory of one process on its way into an image: it is in files in memory since the
 * checkpoint. CRIU sees those files and does not dump them. Where that cannot be, the process is
 * given memory of its own, which CRIU dumps. For one thread.
 */
final class SaveFileStep implements AutoCloseable {

  private static final String BY_CRIU = "CRIU dumps the GPU memory: ";

  private final TrackedProcess target;
  private final DumpOptions options;
  private final StepRecorder steps;
  private @Nullable SaveFiles files;

  /** What is in the image of them; null before they were put there. */
  private @Nullable List<ImageFile> written;

  /** Prepares; nothing is done yet. */
  SaveFileStep(ProcessOperation member, DumpOptions options) {
    this.target = member.process();
    this.options = options;
    this.steps = member.steps();
  }

  /**
   * Finds the files. Takes away what a controller left in the process that was killed: CRIU must
   * not dump a process whose libcuda leads to threads of ours.
   *
   * @param first the number of the first of them in the image
   * @return how many there are
   */
  int look(CriuDriver criu, int first) {
    if (!DriverHook.removeFrom(target.identity)) {
      throw new ImageException(
          ImageException.Reason.NOT_DUMPED,
          "process %s was not dumped: what another controller has changed in its libcuda cannot be taken away, as when a debugger traces it: try again"
              .formatted(target.pid()),
          Failure.of("dump", target.pid()));
    }
    try {
      List<Mapping> mapped = SaveFiles.mappings(target.identity, target.areas());
      if (mapped.isEmpty()) {
        return 0;
      }
      Optional<String> obstacle = unwanted(criu).or(() -> open(mapped, first));
      if (obstacle.isPresent()) {
        giveOwnMemory(mapped, obstacle.get());
      }
    } catch (ProcessUnreadableException e) {
      throw unsupported(e.getMessage(), e);
    }
    return files == null ? 0 : files.count();
  }

  private Optional<String> unwanted(CriuDriver criu) {
    if (!options.memoryFiles()) {
      return Optional.of("the options say so");
    }
    return criu.takesDescriptors()
        ? Optional.empty()
        : Optional.of(
            "CRIU gets no descriptors of this JVM at a restore, as when it is run through sudo");
  }

  /** Returns why they cannot be used; empty when they can. */
  private Optional<String> open(List<Mapping> mapped, int first) {
    try {
      SaveFiles found = SaveFiles.open(target.identity, mapped, first);
      Optional<String> obstacle = found.obstacle();
      if (obstacle.isPresent()) {
        found.close();
      } else {
        files = found;
      }
      return obstacle;
    } catch (IOException e) {
      return Optional.of("its files cannot be opened: " + e.getMessage());
    }
  }

  private void giveOwnMemory(List<Mapping> mapped, String why) {
    List<AddressRange> ranges = mapped.stream().map(Mapping::addresses).toList();
    steps.runNoted(
        "copy to own memory",
        ranges.stream().mapToLong(AddressRange::bytes).sum(),
        () -> {
          try {
            OwnMemory.give(target.identity, ranges);
          } catch (IOException | UntraceableException e) {
            throw unsupported(why + "; " + e.getMessage(), e);
          }
          return BY_CRIU + why;
        });
  }

  private UnsupportedResourceException unsupported(@Nullable String why, Exception cause) {
    return new UnsupportedResourceException(
        "the GPU memory of process %s is in files that cannot be dumped: %s: resume the process, and dump it again"
            .formatted(target.pid(), why),
        Failure.of("dump", target.pid()),
        CriuFailure.NOT_STARTED,
        List.of(new UnsupportedResource(target.pid(), "mapping", MemoryFile.DIRECTORY, null)),
        cause);
  }

  /**
   * Puts the files into the image before they are named, if they must be copied: the process is as
   * it was if that fails.
   *
   * @param undo called when that ends after this has thrown
   */
  void copy(
      StagedImage image, BoundedDiskTask disk, WorkLimit limit, Consumer<@Nullable Boolean> undo) {
    SaveFiles found = files;
    if (found != null && !disk.run("look at", () -> areLinkable(found, image), undo)) {
      write(image, disk, limit, undo);
    }
  }

  private static boolean areLinkable(SaveFiles found, StagedImage image) {
    try {
      return found.areLinkable(image.images());
    } catch (IOException e) {
      throw image.incomplete(e);
    }
  }

  /**
   * Puts the files into the image, unless that was done. The process may be running.
   *
   * @param undo called when that ends after this has thrown
   */
  void write(
      StagedImage image, BoundedDiskTask disk, WorkLimit limit, Consumer<@Nullable Boolean> undo) {
    SaveFiles found = files;
    if (found == null || written != null) {
      return;
    }
    List<ImageFile> made =
        steps.run(
            "write",
            () -> written(found, image, disk, limit, undo),
            files -> files.stream().mapToLong(ImageFile::bytes).sum());
    made.forEach(image::addMemory);
    written = made;
  }

  private static List<ImageFile> written(
      SaveFiles found,
      StagedImage image,
      BoundedDiskTask disk,
      WorkLimit limit,
      Consumer<@Nullable Boolean> undo) {
    return disk.run(
        "write",
        () -> {
          try {
            return found.putInto(image.makeMemoryDirectory(), image.checksum(), limit);
          } catch (IOException e) {
            throw image.incomplete(e);
          }
        },
        late -> undo.accept(late != null));
  }

  /**
   * Gives the files names under which CRIU finds them, and puts those into the image that are on
   * the same file system. Where they cannot be named, the process is given memory of its own.
   *
   * @param undo called when that ends after this has thrown
   */
  void name(StagedImage image, BoundedDiskTask disk, Consumer<@Nullable Boolean> undo) {
    SaveFiles found = files;
    if (found == null) {
      return;
    }
    try {
      found.name();
    } catch (IOException | UntraceableException e) {
      files = null;
      found.close();
      giveOwnMemory(
          SaveFiles.mappings(target.identity, target.areas()),
          "its files cannot be given a name: " + e.getMessage());
      removeFrom(image, disk, undo);
      return;
    }
    boolean unused =
        disk.run(
            "link",
            () -> {
              found.linkInto(image.makeMemoryDirectory());
              return true;
            },
            undo);
  }

  /** CRIU has what was copied. */
  private void removeFrom(
      StagedImage image, BoundedDiskTask disk, Consumer<@Nullable Boolean> undo) {
    List<ImageFile> copied = written;
    if (copied != null) {
      boolean unused =
          disk.run(
              "remove",
              () -> {
                image.removeMemory(copied);
                return true;
              },
              undo);
    }
  }

  /** What is in files, for the manifest. */
  List<MemoryFile> memory() {
    return files == null ? List.of() : files.described();
  }

  /**
   * Checks that CRIU saw each file under the name that the manifest has, since a restore tells it
   * to take our descriptor for that name.
   *
   * @param images CRIU's files
   * @throws ImageException when it did not
   */
  void requireRecorded(Path images) {
    for (MemoryFile each : memory()) {
      if (!RecordedName.isIn(images, each.mappedAs())) {
        throw new ImageException(
            ImageException.Reason.NOT_DUMPED,
            "process %s was not dumped: CRIU saw its memory in another file than %s, as when a directory above it is renamed meanwhile: try again"
                .formatted(target.pid(), each.mappedAs()),
            Failure.of("dump", target.pid()));
      }
    }
  }

  /** Removes the names, which are not needed after CRIU has seen them. */
  void hideNames() {
    if (files != null) {
      files.hide();
    }
  }

  /** Lets the files go. Does nothing the second time. */
  @Override
  public void close() {
    SaveFiles found = files;
    files = null;
    if (found != null) {
      found.close();
    }
  }
}
