package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A CRIU whose version is known.
 *
 * @param command the command that starts it
 * @param version the version it reports
 * @param development whether it was built between releases, so that its version is not significant
 */
public record CriuBinary(CriuCommand command, CriuVersion version, boolean development) {

  /** Returns the absolute path of the program: CRIU itself, or the command that runs it. */
  public Path program() {
    return command.program();
  }

  private static final CriuVersion OLDEST = new CriuVersion(3, 19, 0);

  /** The first kernel on which an older CRIU does not work, and the reason. */
  private record Need(int major, int minor, CriuVersion criu, String reason) {}

  private static final Need[] NEEDS = {
    new Need(6, 16, new CriuVersion(4, 2, 0), "it cannot dump INET sockets"),
    new Need(6, 13, new CriuVersion(4, 1, 0), "it does not know its memory layout"),
  };

  /**
   * Returns the reason why this CRIU cannot work on a kernel.
   *
   * @param kernel as {@code uname -r} prints it
   * @return empty if no reason is known
   */
  public Optional<String> unfitFor(String kernel) {
    if (development) {
      return Optional.empty();
    }
    if (version.compareTo(OLDEST) < 0) {
      return Optional.of("this library needs " + OLDEST + " or later");
    }
    Matcher release = Pattern.compile("(\\d+)\\.(\\d+).*").matcher(kernel);
    if (!release.matches()) {
      return Optional.empty();
    }
    int major = Integer.parseInt(release.group(1));
    int minor = Integer.parseInt(release.group(2));
    for (Need need : NEEDS) {
      boolean kernelIsNewer =
          major > need.major() || (major == need.major() && minor >= need.minor());
      if (kernelIsNewer && version.compareTo(need.criu()) < 0) {
        return Optional.of(
            "kernel " + kernel + " needs " + need.criu() + " or later, " + need.reason());
      }
    }
    return Optional.empty();
  }

  /** Returns the running kernel, as {@code uname -r} prints it. */
  public static String kernel() {
    try {
      return Files.readString(ProcFs.kernel("sys/kernel/osrelease")).strip();
    } catch (IOException e) {
      return System.getProperty("os.version", "");
    }
  }
}
