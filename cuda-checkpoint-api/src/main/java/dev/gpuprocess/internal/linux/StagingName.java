package dev.gpuprocess.internal.linux;

import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The name of a directory in which an image is being written. It identifies the process that writes
 * the image and the one that is dumped, from the moment the directory exists.
 *
 * @param maker the process that writes the image
 * @param process the process that is dumped
 */
public record StagingName(DirectoryMaker maker, ProcessIdentity process) {

  private static final Pattern FORM =
      Pattern.compile(
          "\\.gpuprocess-%s-(\\d{1,10})-(\\d{1,19})-%s\\.partial"
              .formatted(DirectoryMaker.FORM, DirectoryMaker.RANDOM_FORM));

  /** Returns a name for a directory that this JVM creates now. */
  public static StagingName of(ProcessIdentity process) throws IOException {
    return new StagingName(DirectoryMaker.current(), process);
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
              DirectoryMaker.of(form),
              new ProcessIdentity(Integer.parseInt(form.group(5)), Long.parseLong(form.group(6)))));
    } catch (NumberFormatException tooLarge) {
      return Optional.empty();
    }
  }

  /** Returns the text of the name, made unique by random digits. */
  public String text() {
    return ".gpuprocess-%s-%s-%s-%s.partial"
        .formatted(
            maker.text(),
            Integer.toString(process.pid()),
            Long.toString(process.startTicks()),
            DirectoryMaker.random());
  }
}
