package dev.gpuprocess.internal.image;

import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.Ownership;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Prepares CRIU's files for an image. */
final class ImageSealer {

  private ImageSealer() {}

  /**
   * Makes the files private, checks that the memory is complete, and computes checksums while the
   * files are synced.
   */
  static List<ImageFile> files(StagingDirectory staging, Checksum checksum, int pid)
      throws IOException {
    PinnedDirectory image = staging.held();
    List<Path> files = DurableFiles.list(staging.images());
    for (Path file : files) {
      makePrivate(image, file);
    }
    PageMaps.requireComplete(image, staging.images(), "dump", pid);
    try (IoExecutor disk = IoExecutor.disk();
        IoExecutor cores = IoExecutor.cores()) {
      List<CompletableFuture<Path>> syncs = new ArrayList<>();
      List<FileChecksums> sums = new ArrayList<>();
      WorkLimit unlimited = WorkLimit.readingAtLength("dump", pid, () -> false);
      for (Path file : files) {
        syncs.add(disk.start(() -> synced(file)));
        String name = image.path().relativize(file).toString();
        sums.add(FileChecksums.start(cores, image, name, checksum, unlimited));
      }
      List<ImageFile> summed = new ArrayList<>();
      for (FileChecksums file : sums) {
        summed.add(file.await());
      }
      for (CompletableFuture<Path> sync : syncs) {
        IoExecutor.await(sync);
      }
      return summed;
    } catch (IllegalArgumentException e) {
      throw new IOException("CRIU wrote a file that an image cannot hold: " + e.getMessage(), e);
    }
  }

  /**
   * Checks that the memory files are those that the manifest will list: with another one beside
   * them no restore would take the image, and the process ends for it.
   */
  static void requireNoOther(PinnedDirectory image, List<ImageFile> memory) throws IOException {
    Path directory = image.path().resolve(MemoryFile.DIRECTORY);
    if (!Files.exists(directory, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    for (Path file : DurableFiles.list(directory)) {
      String name = image.path().relativize(file).toString();
      if (memory.stream().noneMatch(each -> each.path().equals(name))) {
        throw new FileSystemException(
            image.shown(file).toString(), null, "does not belong to the image");
      }
    }
  }

  private static void makePrivate(PinnedDirectory image, Path file) throws IOException {
    if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
      throw new FileSystemException(
          image.shown(file).toString(), null, "is not a regular file, and CRIU writes no others");
    }
    // Files that a root CRIU wrote for another user stay root's; they are in a directory that only
    // this user can enter.
    if (!Ownership.of(file).isRootsAndNotOurs()) {
      Files.setPosixFilePermissions(file, DurableFiles.PRIVATE_FILE);
    }
  }

  private static Path synced(Path file) throws IOException {
    Descriptors.sync(file);
    return file;
  }
}
