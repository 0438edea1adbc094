package dev.gpuprocess.internal.os;

import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The name of a temporary directory, after its prefix: it identifies the process that created the
 * directory, so that leftovers of dead processes are recognized.
 *
 * @param boot the first digits of the kernel's boot id
 * @param namespace the inode of the creator's pid namespace
 * @param maker the process that created it
 */
public record LogName(String boot, String namespace, ProcessIdentity maker) {

  private static final Pattern FORM =
      Pattern.compile(
          "gpuprocess-[a-z]{1,20}-([0-9a-f]{8})-(\\d{1,20})-(\\d{1,9})-(\\d{1,18})-[0-9a-f]{8}");

  /**
   * For a directory that this JVM creates now; unique.
   *
   * @return the rest of the name after {@code gpuprocess-WORD-}
   * @throws IOException when {@code /proc} cannot be read
   */
  public static String ours() throws IOException {
    StagingName name = StagingName.of(new ProcessIdentity(1, 0));
    return "%s-%s-%s-%s-%s"
        .formatted(
            name.boot(),
            name.namespace(),
            Integer.toString(name.maker().pid()),
            Long.toString(name.maker().startTicks()),
            HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextInt()));
  }

  /** Parses the name of a directory; empty when it has another form. */
  public static Optional<LogName> parse(String name) {
    Matcher form = FORM.matcher(name);
    return form.matches()
        ? Optional.of(
            new LogName(
                form.group(1),
                form.group(2),
                new ProcessIdentity(
                    Integer.parseInt(form.group(3)), Long.parseLong(form.group(4)))))
        : Optional.empty();
  }

  /** Whether its creator is dead. A creator in another pid namespace counts as alive. */
  public boolean isAbandoned() throws IOException {
    return new StagingName(boot, namespace, maker, maker).isAbandoned();
  }
}
