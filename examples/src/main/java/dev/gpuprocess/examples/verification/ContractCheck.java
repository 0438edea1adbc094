package dev.gpuprocess.examples.verification;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import dev.gpuprocess.examples.demo.Machine;
import java.io.PrintStream;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/** Runs the contract that the simulated driver keeps in every build against a machine's driver. */
final class ContractCheck {

  private static final String WHAT = "driver contract";

  private ContractCheck() {}

  static Outcome run(Machine machine, PrintStream out) {
    MachineContract.use(machine);
    LauncherDiscoveryRequest request =
        LauncherDiscoveryRequestBuilder.request()
            .selectors(selectClass(MachineContract.class))
            .configurationParameter("junit.jupiter.execution.timeout.default", "2 m")
            .configurationParameter(
                "junit.jupiter.execution.timeout.thread.mode.default", "SEPARATE_THREAD")
            .build();
    SummaryGeneratingListener summary = new SummaryGeneratingListener();
    LauncherFactory.create().execute(request, summary, new Lines(out));
    return outcome(summary.getSummary());
  }

  private static Outcome outcome(TestExecutionSummary summary) {
    long skipped = summary.getTestsSkippedCount() + summary.getTestsAbortedCount();
    String numbers =
        "%s passed, %s failed, %s skipped"
            .formatted(summary.getTestsSucceededCount(), summary.getTotalFailureCount(), skipped);
    boolean right = summary.getTotalFailureCount() == 0 && summary.getTestsSucceededCount() > 0;
    return right ? Outcome.passed(WHAT, numbers) : Outcome.failed(WHAT, numbers);
  }

  /** One line for each test as it ends. */
  private record Lines(PrintStream out) implements TestExecutionListener {

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
      out.printf("  skipped  %s: %s%n", test.getDisplayName(), reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
      if (!test.isTest() && result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) {
        return;
      }
      String how =
          switch (result.getStatus()) {
            case SUCCESSFUL -> "passed ";
            case ABORTED -> "skipped";
            case FAILED -> "FAILED ";
          };
      String why = result.getThrowable().map(thrown -> ": " + thrown.getMessage()).orElse("");
      out.printf("  %s  %s%s%n", how, test.getDisplayName(), why);
    }
  }
}
