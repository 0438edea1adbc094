package dev.gpuprocess.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.platform.commons.support.AnnotationSupport;

/** Skips what {@link RequiresRoot} stands on, test by test, where the user is another. */
final class RootCondition implements ExecutionCondition {

  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    // A class that is skipped as a whole would be reported as one test, without its methods' names.
    if (context.getTestMethod().isEmpty() || isRoot()) {
      return ConditionEvaluationResult.enabled("root, or not a test");
    }
    String what =
        AnnotationSupport.findAnnotation(context.getElement(), RequiresRoot.class)
            .or(
                () ->
                    AnnotationSupport.findAnnotation(
                        context.getRequiredTestClass(), RequiresRoot.class))
            .map(RequiresRoot::value)
            .orElse("");
    return ConditionEvaluationResult.disabled("needs root: " + what);
  }

  private static boolean isRoot() {
    try {
      return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
