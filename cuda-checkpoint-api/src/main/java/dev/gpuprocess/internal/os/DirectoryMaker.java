package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Who created a directory, as its name tells from the moment it exists, so that leftovers of dead
 * processes are recognized.
 *
 * @param boot the first digits of the kernel's boot id
 * @param namespace the inode of the pid namespace of the process
 * @param process the process that created it
 */
public record DirectoryMaker(String boot, String namespace, ProcessIdentity process) {

  /** Four groups; see {@link #of(Matcher)}. */
  static final String FORM = "([0-9a-f]{8})-(\\d{1,20})-(\\d{1,10})-(\\d{1,19})";

  /** What makes a name unique. */
  static final String RANDOM_FORM = "[0-9a-f]{8}";

  /** Directories of this JVM that it could not remove, by their names, which are unique. */
  private static final Map<String, Path> GIVEN_UP = new ConcurrentHashMap<>();

  private static final Pattern TEMPORARY =
      Pattern.compile("gpuprocess-[a-z]{1,20}-" + FORM + "-" + RANDOM_FORM);

  /**
   * This JVM.
   *
   * @throws IOException when {@code /proc} cannot be read
   */
  public static DirectoryMaker current() throws IOException {
    try {
      ProcessKey self = ProcessKey.self();
      return new DirectoryMaker(
          currentBoot(),
          Long.toString(self.namespace()),
          new ProcessIdentity(self.pid(), self.startTicks()));
    } catch (UncheckedIOException e) {
      throw e.getCause();
    }
  }

  /** The same maker as one that has ended, so that any process may continue or remove its work. */
  public DirectoryMaker ended() {
    return new DirectoryMaker(
        boot, namespace, new ProcessIdentity(process.pid(), process.startTicks() + 1));
  }

  /**
   * Names a temporary directory that this JVM creates now.
   *
   * @param what its purpose, one word
   * @return a unique name
   * @throws IOException when {@code /proc} cannot be read
   */
  public static String temporaryName(String what) throws IOException {
    return "gpuprocess-%s-%s-%s".formatted(what, current().text(), random());
  }

  /** Parses the name of a temporary directory; empty when it has another form. */
  public static Optional<DirectoryMaker> ofTemporary(String name) {
    Matcher form = TEMPORARY.matcher(name);
    try {
      return form.matches() ? Optional.of(of(form)) : Optional.empty();
    } catch (NumberFormatException tooLarge) {
      return Optional.empty();
    }
  }

  /** The maker in the first four groups. */
  static DirectoryMaker of(Matcher form) {
    return new DirectoryMaker(
        form.group(1),
        form.group(2),
        new ProcessIdentity(Integer.parseInt(form.group(3)), Long.parseLong(form.group(4))));
  }

  static String random() {
    return HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextInt());
  }

  /** Its part of a name. */
  String text() {
    return "%s-%s-%s-%s"
        .formatted(
            boot, namespace, Integer.toString(process.pid()), Long.toString(process.startTicks()));
  }

  /**
   * Records that this JVM writes no more to a directory that it made and could not remove, so that
   * it is removed like those of dead makers.
   */
  public static void giveUp(Path directory) {
    GIVEN_UP.put(String.valueOf(directory.getFileName()), directory.toAbsolutePath());
  }

  /** Forgets a directory that was removed. */
  public static void removed(Path directory) {
    GIVEN_UP.remove(String.valueOf(directory.getFileName()));
  }

  /** The directories in which this JVM could not remove something that it had made there. */
  public static Set<Path> placesOfGivenUp() {
    return GIVEN_UP.values().stream()
        .flatMap(directory -> Stream.ofNullable(directory.getParent()))
        .collect(Collectors.toSet());
  }

  /**
   * Whether no process continues what it began in a directory: it is dead, this machine was
   * rebooted since, or it is this JVM and has given the directory up. A maker in another pid
   * namespace of this machine counts as alive.
   *
   * @param directory the directory whose name has this maker
   */
  public boolean hasAbandoned(Path directory) throws IOException {
    return !isOfThisBoot()
        || (namespace.equals(current().namespace) && !process.isAlive())
        || GIVEN_UP.containsKey(String.valueOf(directory.getFileName()));
  }

  /** Whether this machine has not been rebooted since, so that the pids are still valid. */
  public boolean isOfThisBoot() throws IOException {
    try {
      return boot.equals(currentBoot());
    } catch (UncheckedIOException e) {
      throw e.getCause();
    }
  }

  private static String currentBoot() {
    return ProcessKey.boot().substring(0, 8);
  }
}
