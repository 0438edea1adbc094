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
 * gpuprocess.outside}; does nothing where it names none.
 */
final class OutsideUseReport implements TestWatcher {

  @Override
  public void testSuccessful(ExtensionContext test) {
    note(test, "passed");
  }

  @Override
  public void testFailed(ExtensionContext test, Throwable cause) {
    note(test, "failed");
  }

  @Override
  public void testAborted(ExtensionContext test, Throwable cause) {
    note(test, "skipped");
  }

  @Override
  public void testDisabled(ExtensionContext test, Optional<String> reason) {
    note(test, "skipped");
  }

  private static void note(ExtensionContext test, String how) {
    String file = System.getProperty("gpuprocess.outside");
    if (file == null) {
      return;
    }
    rows(test)
        .forEach(
            row ->
                append(
                    Path.of(file),
                    "%s %s %s.%s%n"
                        .formatted(
                            row,
                            how,
                            test.getRequiredTestClass().getSimpleName(),
                            test.getRequiredTestMethod().getName())));
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
      Files.writeString(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
