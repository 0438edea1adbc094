package dev.gpuprocess.criu.internal.restore;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Whether a plugin has started the devices of a restored tree again. When it could not, CRIU
 * restores successfully all the same, and says so in a debug message.
 */
final class DeviceResume {

  private static final Pattern FAILED =
      Pattern.compile("(\\(\\d+\\.\\d+\\) )?restore late stage hook for external plugin failed");

  private DeviceResume() {}

  /**
   * Looks for that.
   *
   * @param log of a restore, with debug messages
   */
  static boolean failed(Path log) throws IOException {
    try (Stream<String> lines = Files.lines(log, StandardCharsets.ISO_8859_1)) {
      return lines.anyMatch(line -> FAILED.matcher(line).matches());
    }
  }
}
