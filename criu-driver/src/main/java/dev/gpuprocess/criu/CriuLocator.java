package dev.gpuprocess.criu;

import dev.gpuprocess.criu.internal.process.CriuVersion;
import dev.gpuprocess.criu.internal.process.Privilege;
import dev.gpuprocess.internal.linux.DurableFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Where to look for CRIU, as {@link RpcCriuDriver} describes it. */
final class CriuLocator {

  /** The system property that names the program. */
  static final String PROPERTY = "gpuprocess.criu";

  /** The environment variable that names the program. */
  static final String VARIABLE = "GPUPROCESS_CRIU";

  /** The system property that names a command that runs CRIU as root. */
  static final String COMMAND_PROPERTY = "gpuprocess.criu.command";

  /** The environment variable that names a command that runs CRIU as root. */
  static final String COMMAND_VARIABLE = Privilege.VARIABLE;

  private static final String NO_COMMAND = "none";

  private static final String PROVISIONED = "provisioned";

  private static final Pattern VERSION_NAME =
      Pattern.compile("(\\d{1,9})\\.(\\d{1,9})(?:\\.(\\d{1,9}))?(?:[^\\d.].*)?");

  private final @Nullable Path explicit;
  private final @Nullable String property;
  private final Map<String, String> environment;
  private final List<String> command;
  private final boolean onlyByCommand;

  /** Looks in the places given by this JVM's system properties and environment. */
  CriuLocator() {
    this(
        null,
        System.getProperty(PROPERTY),
        System.getenv(),
        words(
            System.getProperty(
                COMMAND_PROPERTY, System.getenv().getOrDefault(COMMAND_VARIABLE, ""))),
        false);
  }

  /** Uses one program and no other. */
  CriuLocator(Path criu) {
    this(criu, null, Map.of());
  }

  CriuLocator(@Nullable Path explicit, @Nullable String property, Map<String, String> environment) {
    this(
        explicit,
        property,
        environment,
        words(environment.getOrDefault(COMMAND_VARIABLE, "")),
        false);
  }

  private CriuLocator(
      @Nullable Path explicit,
      @Nullable String property,
      Map<String, String> environment,
      List<String> command,
      boolean onlyByCommand) {
    this.explicit = explicit;
    this.property = property;
    this.environment = environment;
    this.command = List.copyOf(command);
    this.onlyByCommand = onlyByCommand;
  }

  /**
   * Uses only a command that runs CRIU.
   *
   * @param command the program and its arguments down to and including CRIU; no shell is involved
   * @return a locator that uses only this command
   * @throws IllegalArgumentException if it is empty
   */
  static CriuLocator through(List<String> command) {
    if (command.isEmpty() || command.get(0).isBlank()) {
      throw new IllegalArgumentException("the command that runs CRIU is empty");
    }
    return new CriuLocator(null, null, System.getenv(), command, true);
  }

  private static List<String> words(String command) {
    String text = command.strip();
    return text.isEmpty() ? List.of() : List.of(text.split("\\s+"));
  }

  /** The command that was named; empty if none was. */
  List<String> command() {
    return isNone() ? List.of() : command;
  }

  private boolean isNone() {
    return command.equals(List.of(NO_COMMAND));
  }

  /** Returns whether CRIU is never started directly. */
  boolean onlyByCommand() {
    return onlyByCommand;
  }

  /** Returns whether sudo may be tried although it was not named. */
  boolean mayTrySudo() {
    return command.isEmpty() && onPath("sudo").isPresent();
  }

  /** The program of a command, which may be given by its name only. */
  Optional<Path> program(String word) {
    return word.contains("/") ? Optional.of(Path.of(word).toAbsolutePath()) : onPath(word);
  }

  /**
   * A place to look.
   *
   * @param source where it was found or named, such as {@code PATH}
   * @param program the program
   */
  record Candidate(String source, Path program) {

    /** Returns whether it was unpacked by {@code bin/criu}, with its libraries. */
    boolean isProvisioned() {
      return source.equals(PROVISIONED);
    }

    @Override
    public String toString() {
      return source + ": " + program;
    }
  }

  /** The programs to try, in this order; only the named one, if one is named. */
  List<Candidate> candidates() {
    if (explicit != null) {
      return List.of(new Candidate("the given path", explicit.toAbsolutePath()));
    }
    if (property != null && !property.isBlank()) {
      return List.of(new Candidate(PROPERTY, Path.of(property).toAbsolutePath()));
    }
    Optional<String> named = variable(VARIABLE);
    if (named.isPresent()) {
      return List.of(new Candidate(VARIABLE, Path.of(named.get()).toAbsolutePath()));
    }
    List<Candidate> found = new ArrayList<>();
    onPath("criu").ifPresent(program -> found.add(new Candidate("PATH", program)));
    for (Path program : provisioned()) {
      found.add(new Candidate(PROVISIONED, program));
    }
    return found;
  }

  /** The places searched, for the message if nothing was found. */
  String places() {
    return VARIABLE
        + " (not set), PATH ("
        + environment.getOrDefault("PATH", "not set")
        + ")"
        + provisionedHome().map(home -> ", " + home.resolve("VERSION/criu")).orElse("");
  }

  /** The first program with this name on the PATH. */
  Optional<Path> onPath(String name) {
    return Stream.of(environment.getOrDefault("PATH", "").split(":"))
        .filter(directory -> !directory.isEmpty())
        .map(directory -> Path.of(directory, name).toAbsolutePath())
        .filter(program -> Files.isRegularFile(program) && Files.isExecutable(program))
        .findFirst();
  }

  private List<Path> provisioned() {
    Path home = provisionedHome().orElse(null);
    if (home == null || !Files.isDirectory(home)) {
      return List.of();
    }
    try {
      return DurableFiles.list(home).stream()
          .filter(entry -> version(entry).isPresent())
          .sorted(Comparator.comparing((Path entry) -> version(entry).orElseThrow()).reversed())
          .map(entry -> entry.resolve("criu"))
          .filter(Files::isExecutable)
          .toList();
    } catch (IOException e) {
      return List.of(); // not ours to read, so not provisioned for us
    }
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
    return variable("GPUPROCESS_HOME")
        .map(own -> Path.of(own, "criu"))
        .or(() -> variable("XDG_CACHE_HOME").map(cache -> Path.of(cache, "gpuprocess", "criu")))
        .or(() -> variable("HOME").map(home -> Path.of(home, ".cache", "gpuprocess", "criu")));
  }

  private Optional<String> variable(String name) {
    return Optional.ofNullable(environment.get(name)).filter(value -> !value.isBlank());
  }
}
