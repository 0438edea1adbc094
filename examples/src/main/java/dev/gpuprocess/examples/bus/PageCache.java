package dev.gpuprocess.examples.bus;

import dev.gpuprocess.fixtures.ProgramRun;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;

/** Reads the files of an image into the page cache, or drops them. */
final class PageCache {

  private static final Duration LIMIT = Duration.ofMinutes(10);

  private PageCache() {}

  /** Reads the files of an image. */
  static void fill(Path image) throws IOException {
    forEach(image, List.of("of=/dev/null", "bs=4M"));
  }

  /** Drops the files of an image with {@code posix_fadvise}, through dd. */
  static void drop(Path image) throws IOException {
    forEach(image, List.of("iflag=nocache", "count=0"));
  }

  private static void forEach(Path image, List<String> operands) throws IOException {
    List<Path> files;
    try (Stream<Path> all = Files.walk(image)) {
      files = all.filter(Files::isRegularFile).toList();
    }
    for (Path file : files) {
      List<String> command =
          Stream.concat(Stream.of("dd", "if=" + file), operands.stream()).toList();
      ProgramRun.of(command).succeed(LIMIT);
    }
  }
}
