package dev.gpuprocess.internal.os;

import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The name of a directory in which an image is being written. It identifies the process that writes
 * the image and the one that is dumped, from the moment the directory exists.
 *
 * @param boot the first digits of the kernel's boot id
 * @param namespace the inode of the pid namespace of the maker
 * @param maker the process that writes the image
 * @param process the process that is dumped
 */
public record StagingName(
    String boot, String namespace, ProcessIdentity maker, ProcessIdentity process) {

  private static final Pattern FORM =
      Pattern.compile(
          "\\.gpuprocess-([0-9a-f]{8})-(\\d{1,20})-(\\d{1,10})-(\\d{1,19})-(\\d{1,10})-(\\d{1,19})-[0-9a-f]{8}\\.partial");

  /** For a directory that this JVM creates now. */
  public static StagingName of(ProcessIdentity process) throws IOException {
    ProcessKey self = ourKey();
    ProcessIdentity maker = new ProcessIdentity(self.pid(), self.startTicks());
    return new StagingName(currentBoot(), currentNamespace(), maker, process);
  }

  /** Parses the name of a directory; empty when it has another form. */
  public static Optional<StagingName> parse(String name) {
    Matcher form = FORM.matcher(name);
    if (!form.matches()) {
      return Optional.empty();
    }
    try {
      return Optional.of(
          new StagingName(
              form.group(1),
              form.group(2),
              new ProcessIdentity(Integer.parseInt(form.group(3)), Long.parseLong(form.group(4))),
              new ProcessIdentity(Integer.parseInt(form.group(5)), Long.parseLong(form.group(6)))));
    } catch (NumberFormatException tooLarge) {
      return Optional.empty();
    }
  }

  /** The text of the name, made unique by random digits. */
  public String text() {
    return ".gpuprocess-%s-%s-%s-%s-%s-%s-%s.partial"
        .formatted(
            boot,
            namespace,
            maker.pid(),
            maker.startTicks(),
            process.pid(),
            process.startTicks(),
            HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextInt()));
  }

  /**
   * Whether nobody continues it: the maker is dead, or this machine was rebooted since. A maker in
   * another pid namespace of this machine counts as alive.
   */
  public boolean isAbandoned() throws IOException {
    return !isOfThisBoot() || (namespace.equals(currentNamespace()) && !maker.isAlive());
  }

  /** Whether this machine has not been rebooted since, so that the pids are still valid. */
  public boolean isOfThisBoot() throws IOException {
    return boot.equals(currentBoot());
  }

  private static String currentBoot() throws IOException {
    try {
      return ProcessKey.boot().substring(0, 8);
    } catch (UncheckedIOException e) {
      throw e.getCause();
    }
  }

  private static String currentNamespace() throws IOException {
    return Long.toString(ourKey().namespace());
  }

  private static ProcessKey ourKey() throws IOException {
    try {
      return ProcessKey.self();
    } catch (UncheckedIOException e) {
      throw e.getCause();
    }
  }
}
