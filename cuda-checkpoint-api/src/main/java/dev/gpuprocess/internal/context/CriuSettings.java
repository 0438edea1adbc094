package dev.gpuprocess.internal.context;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.linux.SmallFile;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.CriuOptions;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Options for all dumps and restores: those of the program, and CRIU's options of the administrator
 * in a file with a setting in each line.
 *
 * @param program the options that the program set for all of its dumps and restores
 * @param allowedLosses the attributes that the images of all dumps may lack
 */
public record CriuSettings(CriuOptions program, Set<Attribute> allowedLosses) {

  /** The system property that names the administrator's file. */
  public static final String PROPERTY = "gpuprocess.criu.conf";

  /** The environment variable that names it, if the property does not. */
  public static final String VARIABLE = "GPUPROCESS_CRIU_CONF";

  /** Its place, if neither does. */
  public static final Path STANDARD = Path.of("/etc/gpuprocess/criu.conf");

  /** Returns the administrator's file; it may not exist. */
  public static Path file() {
    String name = System.getProperty(PROPERTY, System.getenv(VARIABLE));
    return name == null || name.isEmpty() ? STANDARD : Path.of(name).toAbsolutePath();
  }

  /**
   * Reads the administrator's file.
   *
   * @return the defaults if there is none
   * @throws FixAndRetryException with reason UNSUPPORTED_OPTION if another user could have written
   *     the file, or a line of it is not a setting
   */
  public static CriuOptions administrators() {
    Path file = file();
    if (Files.notExists(file, LinkOption.NOFOLLOW_LINKS)) {
      return CriuOptions.ofDefaults();
    }
    List<String> lines;
    try {
      DirectoryTrust.requireFile(file);
      lines = SmallFile.read(file).lines().toList();
    } catch (IOException e) {
      String why = e.getMessage() == null ? e.toString() : e.getMessage();
      throw refused("%s cannot be used: %s".formatted(file, why), e);
    }
    CriuOptions.Builder all = CriuOptions.builder();
    for (int i = 0; i < lines.size(); i++) {
      String line = lines.get(i).strip();
      if (!line.isEmpty() && !line.startsWith("#")) {
        try {
          all.set(line);
        } catch (IllegalArgumentException e) {
          throw refused("line %s of %s: %s".formatted(i + 1, file, e.getMessage()), e);
        }
      }
    }
    try {
      return all.build();
    } catch (IllegalStateException e) {
      throw refused("%s: %s".formatted(file, e.getMessage()), e);
    }
  }

  private static FixAndRetryException refused(String why, @Nullable Throwable cause) {
    return new FixAndRetryException(
        FixAndRetryException.Reason.UNSUPPORTED_OPTION,
        why + "; nothing was touched",
        Failure.of("read options of CRIU", 0),
        cause);
  }

  /** Returns the options of a dump with those for all dumps. */
  public DumpOptions of(DumpOptions call) {
    Set<Attribute> losses = new HashSet<>(call.allowedLosses());
    losses.addAll(allowedLosses);
    return call.toBuilder()
        .criu(call.criu().over(program).over(administrators()))
        .allowLoss(losses.toArray(Attribute[]::new))
        .build();
  }

  /**
   * Returns the options of a restore with those for all restores.
   *
   * @param image what the image remembers, which the administrator's file does not override
   */
  public RestoreOptions of(RestoreOptions call, CriuOptions image) {
    return call.toBuilder()
        .criu(call.criu().over(program).over(image).over(administrators()))
        .build();
  }
}
