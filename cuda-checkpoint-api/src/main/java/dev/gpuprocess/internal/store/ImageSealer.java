package dev.gpuprocess.internal.store;

import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.internal.os.DurableFiles;
import dev.gpuprocess.internal.os.Ownership;
import dev.gpuprocess.internal.os.PinnedDirectory;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** What is done to CRIU's files before an image may have them. */
final class ImageSealer {

  private ImageSealer() {}

  /**
   * Makes the files private, checks that the memory is complete, sums them and syncs them. The disk
   * writes while the cores sum what is still in its cache.
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
      Reading unlimited = Reading.unlimited("dump", pid);
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

  private static void makePrivate(PinnedDirectory image, Path file) throws IOException {
    if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
      throw new FileSystemException(
          image.shown(file).toString(), null, "is no regular file, and CRIU writes no other");
    }
    // What a CRIU that is root has written stays root's, and is in a directory of ours alone.
    if (!Ownership.of(file).isRootsAndNotOurs()) {
      Files.setPosixFilePermissions(file, DurableFiles.PRIVATE_FILE);
    }
  }

  private static Path synced(Path file) throws IOException {
    DurableFiles.sync(file);
    return file;
  }
}
