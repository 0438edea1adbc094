package dev.gpuprocess.contract;

import dev.gpuprocess.spi.CriuDriver;
import java.util.Optional;
import java.util.ServiceLoader;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Skips what {@link RequiresCriu} stands on, test by test, where there is no CRIU that works. */
final class CriuCondition implements ExecutionCondition {

  /** Asked once in a JVM: it takes starting CRIU. */
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
