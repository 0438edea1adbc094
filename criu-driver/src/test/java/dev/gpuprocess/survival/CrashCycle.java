package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.criu.FileTree;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Every verb once; a controller repeats this until it is killed. */
record CrashCycle(GpuCheckpoints checkpoints, int pid, Path images) {

  /** A part of the names of files that may appear beside the images. */
  static final String DUMP = "dump-";

  void run(int number) {
    checkpoints.process(pid).suspend().resume();
    // The second cycle, to which only those come who are killed late, is CRIU's alone.
    DumpOptions options = DumpOptions.builder().memoryFiles(number % 2 == 1).build();
    Path dump = throughLink().resolve(DUMP + number);
    ProcessImage image = checkpoints.process(pid).suspend().dump(dump, options);
    image.restore().resume();
    FileTree.remove(image.directory());
    // The first of them is older than the second, which removes it.
    checkpoints.process(pid).snapshot(images.resolve("first-" + number), options);
    checkpoints.process(pid).snapshot(images.resolve("second-" + number), options);
    checkpoints.store(images).prune(RetentionPolicy.builder().keepLast(1).build());
  }

  /** The directory of images as {@code link/..}, which only the kernel can resolve. */
  private Path throughLink() {
    try {
      Path inner = Files.createDirectories(images.resolve("inner"));
      Path link = images.resolveSibling("link");
      if (!Files.exists(link)) {
        Files.createSymbolicLink(link, inner);
      }
      return link.resolve("..");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
