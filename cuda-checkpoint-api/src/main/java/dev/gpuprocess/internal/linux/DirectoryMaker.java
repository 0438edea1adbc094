package dev.gpuprocess.internal.linux;

import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The process that created a directory, encoded in the directory's name, so that leftovers of dead
 * processes are recognized.
 *
 * @param boot the first digits of the kernel's boot id
 * @param namespace the inode of the pid namespace of the process
 * @param process the process that created it
 */
public record DirectoryMaker(String boot, String namespace, ProcessIdentity process) {

  /** Four groups; see {@link #of(Matcher)}. */
  static final String FORM = "([0-9a-f]{8})-(\\d{1,20})-(\\d{1,10})-(\\d{1,19})";

  /** Digits that make a name unique. */
  static final String RANDOM_FORM = "[0-9a-f]{8}";

  private static final Pattern TEMPORARY =
      Pattern.compile("gpuprocess-[a-z]{1,20}-" + FORM + "-" + RANDOM_FORM);

  /**
   * Returns this JVM as the maker.
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

  /** Returns a maker that counts as ended, so that any process may continue or remove its work. */
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

  /** Returns the maker in the first four groups. */
  static DirectoryMaker of(Matcher form) {
    return new DirectoryMaker(
        form.group(1),
        form.group(2),
        new ProcessIdentity(Integer.parseInt(form.group(3)), Long.parseLong(form.group(4))));
  }

  static String random() {
    return HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextInt());
  }

  /** Returns its part of a name. */
  String text() {
    return "%s-%s-%s-%s"
        .formatted(
            boot, namespace, Integer.toString(process.pid()), Long.toString(process.startTicks()));
  }

  /**
   * Returns whether the maker has ended or this machine was rebooted since. A maker in another pid
   * namespace of this machine counts as alive.
   */
  public boolean hasEnded() throws IOException {
    return !isOfThisBoot() || (namespace.equals(current().namespace) && !process.isAlive());
  }

  /** Returns whether this JVM would see the maker in {@code /proc} if the maker were alive. */
  public boolean isVisible() throws IOException {
    return isOfThisBoot() && namespace.equals(current().namespace);
  }

  /** Returns whether this machine was not rebooted since, so that the pids are still valid. */
  public boolean isOfThisBoot() throws IOException {
    return boot.equals(currentBoot());
  }

  private static String currentBoot() throws IOException {
    try {
      return ProcessKey.boot().substring(0, 8);
    } catch (MachineUnfitException e) {
      throw new IOException(e.getMessage(), e);
    }
  }
}
