package dev.gpuprocess.survival;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.internal.image.AbandonedImage;
import dev.gpuprocess.internal.image.StagedImage;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RetentionPolicy;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * A controller in a JVM of its own, in the POSIX locale, that speaks one language after another.
 */
final class LocaleController {

  static final List<String> LANGUAGES = List.of("fa-IR", "ar-EG", "tr-TR", "th-TH-u-nu-thai");

  private LocaleController() {}

  /**
   * Does what a controller does, once in each language.
   *
   * @param args machine, a directory whose only directory has a name that cannot be said here, pid
   */
  public static void main(String[] args) throws IOException {
    Path place = onlyEntry(Path.of(args[1]));
    int pid = Integer.parseInt(args[2]);
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder()
            .cuda(Path.of(args[0]))
            .stateDirectory(place.resolve("state"))
            .build();
    for (String language : LANGUAGES) {
      Locale.setDefault(Locale.forLanguageTag(language));
      cycle(checkpoints, pid, Files.createDirectory(place.resolve(language)));
    }
    checkpoints.recover();
    System.out.println("done");
  }

  private static Path onlyEntry(Path directory) throws IOException {
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
      return entries.iterator().next();
    }
  }

  /** Another user's directory beside the images, and an image, whose names cannot be said here. */
  private static void requireForeignNamesAreHandled(ImageStore store, Path place) {
    Path foreign = place.resolve(NativePath.of("画像"));
    StoredImage newest = store.list().get(0);
    store.open(newest).copyTo(foreign);
    List<StoredImage> listed = store.list();
    require(listed.size() == 3, "the store has other entries: " + listed);
    require(
        listed.stream().anyMatch(each -> each.directory().equals(foreign) && each.isComplete()),
        "the image with a foreign name is not usable: " + listed);
    PruneReport pruned = store.prune(RetentionPolicy.builder().keepLast(2).build());
    require(pruned.removed().isEmpty(), "too much was removed: " + pruned);
    require(store.remove(foreign).isEmpty(), "the image with a foreign name is not removed");
    require(!Files.exists(foreign), "the image with a foreign name is there");
  }

  private static void cycle(GpuCheckpoints checkpoints, int pid, Path place) throws IOException {
    Path image = place.resolve("image");
    Files.createDirectory(place.resolve(NativePath.of("ü")));
    checkpoints.process(pid).lock().unlock();
    checkpoints.process(pid).suspend().dump(image, DumpOptions.builder().label("Zoë").build());
    ProcessImage opened = checkpoints.open(image);
    opened.verify();
    opened.describe();
    opened.restore().resume();
    checkpoints.process(pid).snapshot(place.resolve("newer"));
    PruneReport pruned =
        checkpoints.store(place).prune(RetentionPolicy.builder().keepLast(1).build());
    requireForeignNamesAreHandled(checkpoints.store(place), place);
    require(pruned.removed().equals(List.of(image)), "the older image stays: " + pruned);
    requireHalfImagesAreFound(pid, place);
  }

  /** Creates a partial image of a dead maker: its name has the start time of another process. */
  private static void requireHalfImagesAreFound(int pid, Path place) throws IOException {
    Path growing = null;
    ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
    try (StagedImage staged = StagedImage.create(place.resolve("half"), process, 0, null)) {
      staged.logUnwanted();
      try (DirectoryStream<Path> halves = Files.newDirectoryStream(place, ".gpuprocess-*")) {
        growing = halves.iterator().next();
      }
    }
    long self = ProcessHandle.current().pid();
    Path dead =
        place.resolve(
            growing
                .getFileName()
                .toString()
                .replaceFirst("-" + self + "-\\d+-", "-" + self + "-1-"));
    require(!dead.equals(growing), "the name has no maker in it: " + growing.getFileName());
    Files.createDirectory(dead);
    List<AbandonedImage> found = AbandonedImage.in(place);
    require(found.size() == 1, "the half image " + dead.getFileName() + " is not recognized");
    found.get(0).remove();
  }

  private static void require(boolean condition, String otherwise) {
    if (!condition) {
      throw new IllegalStateException(otherwise + ", in " + Locale.getDefault());
    }
  }
}
