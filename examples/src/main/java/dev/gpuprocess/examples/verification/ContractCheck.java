package dev.gpuprocess.examples.verification;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import dev.gpuprocess.contract.CudaDriverContract;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Launch;
import dev.gpuprocess.fixtures.Workload;
import java.io.PrintStream;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/** A check that the driver of a machine keeps the contract of the simulated driver. */
final class ContractCheck {

  private static final String WHAT = "driver contract";

  private ContractCheck() {}

  static Outcome run(Machine machine, PrintStream out) {
    MachineContract.machine = machine;
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
    return Outcome.of(WHAT, right, numbers);
  }

  /** The driver contract on the machine that is checked. */
  static class MachineContract extends CudaDriverContract {

    /** Static, because JUnit makes the instances. */
    private static @Nullable Machine machine;

    private static Machine machine() {
      return Objects.requireNonNull(machine);
    }

    @Override
    protected CudaDriver driver() {
      return machine().checkpoints().cuda();
    }

    @Override
    protected GpuInventory inventory() {
      return machine().checkpoints().gpus();
    }

    @Override
    protected <W extends Workload> Launch<W> on(Launch<W> launch) {
      return machine().on(launch);
    }
  }

  /** A listener that prints a line for each test when it ends. */
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
