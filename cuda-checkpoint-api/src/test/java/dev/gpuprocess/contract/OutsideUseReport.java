package dev.gpuprocess.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestWatcher;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * Notes how each test of a row ended, one line a test, in the file that the build names in {@code
 * gpuprocess.outside}; does nothing where it names none. A line is {@code ROW passed|failed|skipped
 * Class.method}, and why it was skipped.
 */
final class OutsideUseReport implements TestWatcher {

  @Override
  public void testSuccessful(ExtensionContext test) {
    note(test, "passed", "");
  }

  @Override
  public void testFailed(ExtensionContext test, Throwable cause) {
    note(test, "failed", "");
  }

  @Override
  public void testAborted(ExtensionContext test, Throwable cause) {
    note(test, "skipped", String.valueOf(cause.getMessage()));
  }

  @Override
  public void testDisabled(ExtensionContext test, Optional<String> reason) {
    note(test, "skipped", reason.orElse(""));
  }

  private static void note(ExtensionContext test, String how, String why) {
    String file = System.getProperty("gpuprocess.outside");
    if (file == null) {
      return;
    }
    rows(test)
        .forEach(
            row ->
                append(
                    Path.of(file),
                    String.join(
                            " ",
                            row,
                            how,
                            test.getRequiredTestClass().getSimpleName()
                                + "."
                                + test.getRequiredTestMethod().getName(),
                            why.replaceFirst("^Assumption failed: ", "").replaceAll("\\s+", " "))
                        .strip()));
  }

  /** The method's own row, or else that of the class. */
  private static Stream<String> rows(ExtensionContext test) {
    return AnnotationSupport.findAnnotation(test.getElement(), OutsideUse.class)
        .or(() -> AnnotationSupport.findAnnotation(test.getRequiredTestClass(), OutsideUse.class))
        .map(OutsideUse::value)
        .stream();
  }

  private static void append(Path file, String line) {
    try {
      Files.createDirectories(file.toAbsolutePath().getParent());
      // One write, so that lines of two JVMs do not mix.
      Files.writeString(file, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
