package dev.gpuprocess.criu;

import dev.gpuprocess.spi.CriuVersion;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Where CRIU may be.
 *
 * <p>The system property {@value #PROPERTY} or else the environment variable {@value #VARIABLE}
 * names it; what is named is used or refused, never replaced by another. Otherwise the first {@code
 * criu} on the {@code PATH} and the ones that {@code bin/criu} provisioned are tried in turn,
 * newest first.
 */
public final class CriuLocator {

  /** The system property that names the program. */
  public static final String PROPERTY = "gpuprocess.criu";

  /** The environment variable that names the program. */
  public static final String VARIABLE = "GPUPROCESS_CRIU";

  private static final String PROVISIONED = "provisioned";

  private static final Pattern VERSION_NAME =
      Pattern.compile("(\\d+)\\.(\\d+)(?:\\.(\\d+))?(?:[^\\d.].*)?");

  private final @Nullable Path explicit;
  private final @Nullable String property;
  private final Map<String, String> environment;

  /** Looks where this JVM's system property and environment say. */
  public CriuLocator() {
    this(null, System.getProperty(PROPERTY), System.getenv());
  }

  /**
   * Names the program.
   *
   * @param criu the one to use
   */
  public CriuLocator(Path criu) {
    this(criu, null, Map.of());
  }

  CriuLocator(@Nullable Path explicit, @Nullable String property, Map<String, String> environment) {
    this.explicit = explicit;
    this.property = property;
    this.environment = environment;
  }

  /**
   * A place to look.
   *
   * @param source who says so, such as {@code PATH}
   * @param program the program
   */
  record Candidate(String source, Path program) {

    /** Whether it was unpacked by {@code bin/criu}, with all that it loads. */
    boolean isProvisioned() {
      return source.equals(PROVISIONED);
    }

    @Override
    public String toString() {
      return source + ": " + program;
    }
  }

  /** The places that hold a file, in the order to try them; all that is named, if something is. */
  List<Candidate> candidates() {
    if (explicit != null) {
      return List.of(new Candidate("explicit path", explicit.toAbsolutePath()));
    }
    if (property != null && !property.isBlank()) {
      return List.of(new Candidate(PROPERTY, Path.of(property).toAbsolutePath()));
    }
    String named = environment.getOrDefault(VARIABLE, "");
    if (!named.isBlank()) {
      return List.of(new Candidate(VARIABLE, Path.of(named).toAbsolutePath()));
    }
    List<Candidate> found = new ArrayList<>();
    onPath("criu").ifPresent(program -> found.add(new Candidate("PATH", program)));
    for (Path program : provisioned()) {
      found.add(new Candidate(PROVISIONED, program));
    }
    return found;
  }

  /** What a search that found nothing has to tell. */
  String places() {
    return VARIABLE
        + " (not set), PATH ("
        + environment.getOrDefault("PATH", "not set")
        + "), "
        + provisionedHome()
            .map(home -> home.resolve("VERSION/criu"))
            .map(Path::toString)
            .orElse("");
  }

  /** The first such program on the path. */
  Optional<Path> onPath(String name) {
    for (String directory : environment.getOrDefault("PATH", "").split(":")) {
      if (!directory.isEmpty()) {
        Path program = Path.of(directory, name);
        if (Files.isRegularFile(program) && Files.isExecutable(program)) {
          return Optional.of(program.toAbsolutePath());
        }
      }
    }
    return Optional.empty();
  }

  private List<Path> provisioned() {
    Path home = provisionedHome().orElse(null);
    if (home == null || !Files.isDirectory(home)) {
      return List.of();
    }
    List<Path> versions = new ArrayList<>();
    try (DirectoryStream<Path> entries = Files.newDirectoryStream(home)) {
      for (Path entry : entries) {
        if (version(entry).isPresent() && Files.isExecutable(entry.resolve("criu"))) {
          versions.add(entry);
        }
      }
    } catch (IOException e) {
      return List.of(); // not ours to read, so not provisioned for us
    }
    versions.sort(Comparator.comparing((Path entry) -> version(entry).orElseThrow()).reversed());
    return versions.stream().map(entry -> entry.resolve("criu")).toList();
  }

  private static Optional<CriuVersion> version(Path directory) {
    Matcher name = VERSION_NAME.matcher(String.valueOf(directory.getFileName()));
    if (!name.matches()) {
      return Optional.empty();
    }
    int sublevel = name.group(3) == null ? 0 : Integer.parseInt(name.group(3));
    return Optional.of(
        new CriuVersion(
            Integer.parseInt(name.group(1)), Integer.parseInt(name.group(2)), sublevel));
  }

  private Optional<Path> provisionedHome() {
    String own = environment.getOrDefault("GPUPROCESS_HOME", "");
    if (!own.isBlank()) {
      return Optional.of(Path.of(own, "criu"));
    }
    String cache = environment.getOrDefault("XDG_CACHE_HOME", "");
    if (!cache.isBlank()) {
      return Optional.of(Path.of(cache, "gpuprocess", "criu"));
    }
    String home = environment.getOrDefault("HOME", "");
    return home.isBlank()
        ? Optional.empty()
        : Optional.of(Path.of(home, ".cache", "gpuprocess", "criu"));
  }
}
