package dev.gpuprocess.contract;

import dev.gpuprocess.spi.CriuDriver;
import java.util.Optional;
import java.util.ServiceLoader;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Skips each test with {@link RequiresCriu} if no CRIU works. */
final class CriuCondition implements ExecutionCondition {

  /** Checked once in a JVM, since the check starts CRIU. */
  private static final class Here {

    static final Optional<String> MISSING =
        ServiceLoader.load(CriuDriver.class)
            .findFirst()
            .map(InstalledCriu::missing)
            .orElse(Optional.of("needs real CRIU: there is no CriuDriver on the class path"));
  }

  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    // A class that is skipped as a whole would be reported as one test, without its methods' names.
    if (context.getTestMethod().isEmpty()) {
      return ConditionEvaluationResult.enabled("not a test");
    }
    return Here.MISSING
        .map(ConditionEvaluationResult::disabled)
        .orElseGet(() -> ConditionEvaluationResult.enabled("CRIU works"));
  }
}
