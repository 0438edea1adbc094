package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFailure;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.engine.ProcessOperation;
import dev.gpuprocess.internal.engine.StepRecorder;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.engine.TreeOperation;
import dev.gpuprocess.internal.image.FilesImage;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.MemoryFile;
import dev.gpuprocess.internal.memory.DriverHook;
import dev.gpuprocess.internal.memory.HeldFiles;
import dev.gpuprocess.internal.memory.OwnMemory;
import dev.gpuprocess.internal.memory.SaveFiles;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.spi.CriuDriver;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The GPU memory of all members on its way into an image. Since the checkpoint it is in files in
 * host memory, which CRIU maps and does not dump. Where CRIU cannot do that, a member gets
 * anonymous memory, which CRIU dumps. For one thread.
 */
final class SaveFileSteps {

  private static final String BY_CRIU = "CRIU dumps the GPU memory: ";

  private final DumpOptions options;
  private final List<OneMember> members;

  SaveFileSteps(TreeOperation operation, DumpOptions options) {
    this.options = options;
    this.members = operation.members().stream().map(OneMember::new).toList();
  }

  /**
   * Finds the files of all members, and gives own memory to members whose files CRIU cannot use.
   * Removes first what a killed controller left in a member: CRIU must not dump a process whose
   * libcuda calls threads of this library.
   */
  void find(CriuDriver criu) {
    int next = 1;
    for (OneMember each : members) {
      next += each.find(criu, next);
    }
  }

  /**
   * Copies the files into the image that cannot be linked there. To be called before {@link #name},
   * so that the members are unchanged if it fails.
   */
  void copy(StagedImage image, BoundedDiskTask disk, WorkLimit limit) {
    members.forEach(each -> each.copy(image, disk, limit));
  }

  /** Writes the files into the image that are not there yet. The members may be running. */
  void write(StagedImage image, BoundedDiskTask disk, WorkLimit limit) {
    members.forEach(each -> each.write(image, disk, limit));
  }

  /**
   * Gives the files names by which CRIU finds them, and links files on the image's file system into
   * the image. A member whose files cannot be named gets own memory.
   */
  void name(StagedImage image, BoundedDiskTask disk) {
    members.forEach(each -> each.name(image, disk));
  }

  /** Returns the files for the manifest; null for none. */
  @Nullable List<MemoryFile> memory() {
    List<MemoryFile> files = members.stream().flatMap(each -> each.memory().stream()).toList();
    return files.isEmpty() ? null : files;
  }

  /**
   * Checks that CRIU recorded each file by the name in the manifest, because a restore gives CRIU a
   * descriptor for that name.
   *
   * @param images CRIU's files
   * @throws ImageException with reason NOT_DUMPED when it did not
   */
  void requireRecorded(Path images) {
    members.forEach(each -> each.requireRecorded(images));
  }

  /** Removes the names, which CRIU no longer needs. */
  void hideNames() {
    members.forEach(each -> each.files.ifPresent(SaveFiles::hide));
  }

  /** Closes the files and the image. */
  void closeWith(StagedImage image) {
    try {
      members.forEach(OneMember::close);
    } finally {
      image.close();
    }
  }

  private final class OneMember {

    private final TrackedProcess target;
    private final StepRecorder steps;

    /** Empty where CRIU dumps the memory. */
    private Optional<SaveFiles> files = Optional.empty();

    /** The files that are in the image. */
    private Optional<List<ChecksummedFile>> written = Optional.empty();

    OneMember(ProcessOperation member) {
      this.target = member.process();
      this.steps = member.steps();
    }

    /**
     * Finds the files.
     *
     * @param first the number of the first of them in the image
     * @return their number
     */
    int find(CriuDriver criu, int first) {
      if (!DriverHook.removeFrom(target.identity)) {
        throw notDumped(
            "the changes of another controller in its libcuda cannot be removed, for example because a debugger traces the process: try again");
      }
      try {
        List<Mapping> mapped = SaveFiles.mappings(target.identity, target.saveFiles());
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
      return files.map(SaveFiles::count).orElse(0);
    }

    private ImageException notDumped(String why) {
      return new ImageException(
          ImageException.Reason.NOT_DUMPED,
          "process %s was not dumped: %s".formatted(target.pid(), why),
          Failure.of("dump", target.pid()));
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

    /** Returns why CRIU cannot use the files; empty when it can. */
    private Optional<String> open(List<Mapping> mapped, int first) {
      try {
        SaveFiles found = SaveFiles.open(target.identity, mapped, first);
        files = Optional.of(found); // closed with the image, also if the next call throws
        Optional<String> obstacle = found.obstacle();
        if (obstacle.isPresent()) {
          found.close();
          files = Optional.empty();
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
              OwnMemory.give(
                  target.identity,
                  ranges,
                  WorkLimit.copying(target.pid(), options.deadline(), () -> false));
              mapped.forEach(each -> HeldFiles.release(each.file()));
            } catch (IOException | UntraceableException e) {
              throw unsupported(why + "; " + e.getMessage(), e);
            }
            return BY_CRIU + why;
          });
    }

    private CriuException unsupported(@Nullable String why, Exception cause) {
      return CriuException.unsupportedResource(
          "the GPU memory of process %s is in files that cannot be dumped: %s: resume the process, and dump it again"
              .formatted(target.pid(), why),
          Failure.of("dump", target.pid()),
          CriuFailure.NOT_STARTED,
          List.of(new UnsupportedResource(target.pid(), "mapping", MemoryFile.DIRECTORY, null)),
          cause);
    }

    void copy(StagedImage image, BoundedDiskTask disk, WorkLimit limit) {
      if (files.isPresent()
          && !disk.run(
              "look at", () -> areLinkable(files.get(), image), late -> closeWith(image))) {
        write(image, disk, limit);
      }
    }

    private static boolean areLinkable(SaveFiles found, StagedImage image) {
      try {
        return found.areLinkable(image.images());
      } catch (IOException e) {
        throw image.incomplete(e);
      }
    }

    void write(StagedImage image, BoundedDiskTask disk, WorkLimit limit) {
      if (files.isEmpty() || written.isPresent()) {
        return;
      }
      SaveFiles found = files.get();
      List<ChecksummedFile> made =
          steps.run(
              "write",
              () -> disk.run("write", () -> written(found, image, limit), late -> closeWith(image)),
              all -> all.stream().mapToLong(ChecksummedFile::bytes).sum());
      made.forEach(image::addMemory);
      written = Optional.of(made);
    }

    private static List<ChecksummedFile> written(
        SaveFiles found, StagedImage image, WorkLimit limit) {
      try {
        return found.putInto(image.makeMemoryDirectory(), image.checksum(), limit);
      } catch (IOException e) {
        throw image.incomplete(e);
      }
    }

    void name(StagedImage image, BoundedDiskTask disk) {
      if (files.isEmpty()) {
        return;
      }
      SaveFiles found = files.get();
      try {
        found.name();
      } catch (IOException | UntraceableException e) {
        close();
        giveOwnMemory(
            SaveFiles.mappings(target.identity, target.saveFiles()),
            "its files cannot be given a name: " + e.getMessage());
        // CRIU dumps the copies too.
        written.ifPresent(
            copied -> inTime(disk, "remove", image, () -> image.removeMemory(copied)));
        return;
      }
      inTime(
          disk,
          "link",
          image,
          () -> target.forgetSaveFiles(found.linkInto(image.makeMemoryDirectory())));
    }

    private void inTime(BoundedDiskTask disk, String what, StagedImage image, Runnable work) {
      boolean unused =
          disk.run(
              what,
              () -> {
                work.run();
                return true;
              },
              late -> closeWith(image));
    }

    List<MemoryFile> memory() {
      return files.map(SaveFiles::described).orElse(List.of());
    }

    void requireRecorded(Path images) {
      for (MemoryFile each : memory()) {
        if (!FilesImage.contains(images, each.mappedAs())) {
          throw notDumped(
              "CRIU recorded its memory in another file than %s, for example because a directory above was renamed: try again"
                  .formatted(each.mappedAs()));
        }
      }
    }

    void close() {
      Optional<SaveFiles> found = files;
      files = Optional.empty();
      found.ifPresent(SaveFiles::close);
    }
  }
}
