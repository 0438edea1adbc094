package dev.gpuprocess.internal.os;

import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The end of the name of a directory among temporary files, for a log or for what else is gone when
 * its maker is: who made it.
 *
 * @param boot the first digits of the kernel's boot id
 * @param namespace the inode of the maker's pid namespace
 * @param maker the process that made it
 */
public record LogName(String boot, String namespace, ProcessIdentity maker) {

  private static final Pattern FORM =
      Pattern.compile(
          "gpuprocess-[a-z]{1,20}-([0-9a-f]{8})-(\\d{1,20})-(\\d{1,9})-(\\d{1,18})-[0-9a-f]{8}");

  /**
   * Of a directory that this JVM makes now; no other has it.
   *
   * @return what goes behind {@code gpuprocess-WORD-}
   * @throws IOException when /proc does not say who we are
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

  /** Reads a name; empty when it is of something else. */
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

  /** Whether its maker is dead; of one in another pid namespace that cannot be told. */
  public boolean isAbandoned() throws IOException {
    return new StagingName(boot, namespace, maker, maker).isAbandoned();
  }
}
