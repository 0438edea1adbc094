package dev.gpuprocess.criu;

import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.extras.ImageExtras;
import dev.gpuprocess.internal.image.ImageDirectory;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** Reads a good image with too few descriptors, in a JVM of its own. */
final class DescriptorlessReader {

  /** More than reading needs. */
  private static final int ENOUGH = 20;

  private DescriptorlessReader() {}

  /**
   * Prints what became of it.
   *
   * @param args an image, and a directory with what is carried beside CRIU's files
   * @throws Exception when it cannot be tried
   */
  public static void main(String[] args) throws Exception {
    Hoard.loadClasses(DescriptorlessReader.class.getClassLoader());
    List<Runnable> readings =
        List.of(
            () -> ImageDirectory.open(Path.of(args[0])).verify(),
            () -> ImageExtras.read(1, Path.of(args[1])));
    Set<String> ends = new LinkedHashSet<>();
    for (Runnable reading : readings) {
      reading.run();
      for (int free = ENOUGH; free >= 0; free--) {
        ends.add(end(reading, free));
      }
    }
    System.out.println(
        ends.equals(Set.of("good", "unreadable"))
            ? "good with enough descriptors, unreadable without"
            : ends.toString());
  }

  private static String end(Runnable reading, int free) {
    try (Hoard all = new Hoard(free)) {
      reading.run();
      return "good";
    } catch (ImageException e) {
      return e.reason() == ImageException.Reason.UNREADABLE
          ? "unreadable"
          : "%s with %s descriptors: %s".formatted(e.reason(), free, e.getMessage());
    } catch (RuntimeException | Error e) {
      return free + " " + e;
    }
  }
}
