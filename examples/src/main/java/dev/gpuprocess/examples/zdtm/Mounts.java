package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.examples.zdtm.Way.FailedException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;

/** The mounts of this mount namespace. */
final class Mounts {

  private static final int POINT = 4;

  private Mounts() {}

  /** Takes away what programs have left mounted below a directory. */
  static void unmountBelow(Path directory) throws FailedException {
    List<String> points;
    try {
      points =
          Files.readAllLines(Path.of("/proc/self/mountinfo"), StandardCharsets.ISO_8859_1).stream()
              .map(line -> line.split(" ")[POINT])
              .filter(point -> point.startsWith(directory + "/"))
              .collect(Collectors.toList());
    } catch (IOException e) {
      throw new FailedException("the mounts cannot be read: " + e.getMessage(), e);
    }
    Collections.reverse(points);
    for (String point : points) {
      Command.in(Path.of("/"), "umount", "--lazy", point).succeed();
    }
  }
}
