package dev.gpuprocess.criu.internal.restore;

import dev.gpuprocess.criu.internal.images.TreeReader;
import dev.gpuprocess.criu.internal.log.CriuFailureBuilder;
import dev.gpuprocess.criu.internal.log.TreeOutcome;
import dev.gpuprocess.criu.internal.process.GivenUpException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.UnreadableImage;
import dev.gpuprocess.internal.time.IoSupplier;
import dev.gpuprocess.spi.GpuPlugin;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Checks images before CRIU is started on them. CRIU treats a missing file as an empty one: it
 * crashes, or fails without naming it.
 */
final class ImageSet {

  private static final List<String> GENERAL = List.of("inventory.img", "pstree.img", "files.img");
  private static final List<String> OF_THE_ROOT =
      List.of("core-%s.img", "ids-%s.img", "mm-%s.img", "fs-%s.img", "pagemap-%s.img");

  /** What CRIU reports for damaged or incompatible images. */
  private static final Pattern UNUSABLE =
      Pattern.compile(
          "Unexpected EOF|Read \\d+ bytes while \\d+ expected|Can't read pages data"
              + "|Images corrupted|Img trimmed|Empty list on file desc|Magic doesn't match"
              + "|Unsupported protobuf|Incompatible image version");

  private static final int FIRST_OF_NAMESPACE = 1;

  private ImageSet() {}

  /**
   * Refuses images on which CRIU would crash or fail without a clear reason.
   *
   * @param subject for messages
   * @param images the directory
   * @param pid the root of the tree
   * @param allowed the plugin that CRIU will load; null for none
   * @return whether the tree has a pid namespace of its own, with other pids in it
   */
  static boolean require(String subject, Path images, int pid, @Nullable GpuPlugin allowed) {
    Failure failure = Failure.of("restore", pid);
    if (!Files.isRegularFile(images.resolve(GENERAL.get(0)))) {
      throw new ImageException(
          ImageException.Reason.MISSING,
          subject + " did not begin: there are no images in " + images,
          failure);
    }
    for (String name : GENERAL) {
      requireFile(subject, images.resolve(name), failure);
    }
    TreeReader tree = new TreeReader(images);
    int root = read(subject, "pstree.img", tree::rootPid, failure);
    if (root != pid && root != FIRST_OF_NAMESPACE) {
      throw new ImageException(
          ImageException.Reason.CORRUPT,
          "%s did not begin: the images hold process %s".formatted(subject, root),
          failure);
    }
    for (String name : OF_THE_ROOT) {
      requireFile(subject, images.resolve(name.formatted(root)), failure);
    }
    List<String> others =
        read(subject, "inventory.img", tree::plugins, failure).stream()
            .filter(name -> allowed == null || !name.equals(allowed.id()))
            .toList();
    requireNoPlugin(subject, others, failure);
    return root == FIRST_OF_NAMESPACE;
  }

  private static void requireFile(String subject, Path file, Failure failure) {
    if (!Files.isRegularFile(file)) {
      throw new ImageException(
          ImageException.Reason.CORRUPT,
          "%s did not begin: %s is missing in %s, use another copy of the image"
              .formatted(subject, file.getFileName(), file.getParent()),
          failure);
    }
  }

  private static <T> T read(String subject, String name, IoSupplier<T> reading, Failure failure) {
    try {
      return reading.get();
    } catch (IOException e) {
      throw UnreadableImage.of(
          "%s did not begin: %s cannot be read, %s".formatted(subject, name, e.getMessage()),
          failure,
          e);
    }
  }

  /**
   * Refuses images made with CRIU's CUDA plugin, which restores the GPU state in CRIU's restore:
   * the library would restore it a second time.
   */
  private static void requireNoPlugin(String subject, List<String> plugins, Failure failure) {
    if (!plugins.isEmpty()) {
      throw new ImageException(
          ImageException.Reason.PLUGIN,
          "%s did not begin: the images were made with %s of CRIU, which %s; restore them with criu itself"
              .formatted(
                  subject,
                  plugins.stream().map(name -> "the " + name).collect(Collectors.joining(" and ")),
                  plugins.equals(List.of(GpuPlugin.AMDGPU.id()))
                      ? "is loaded for AmdImage alone"
                      : "this library does not use"),
          failure);
    }
  }

  /**
   * The failure of a restore, as an {@link ImageException} with reason CORRUPT if the images are
   * the reason.
   */
  static GpuCheckpointException explain(
      CriuFailureBuilder builder, TreeOutcome outcome, @Nullable GivenUpException givenUp) {
    GpuCheckpointException general = builder.general(outcome, givenUp);
    if (builder.errors().stream().noneMatch(error -> UNUSABLE.matcher(error).find())) {
      return general;
    }
    return new ImageException(
        ImageException.Reason.CORRUPT,
        builder.message(outcome, builder.reason(), "use another copy of the image"),
        builder.failure(outcome),
        general);
  }
}
