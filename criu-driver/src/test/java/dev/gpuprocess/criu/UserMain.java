package dev.gpuprocess.criu;

import java.util.List;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs tests in a JVM of another user, and prints a line for each. */
final class UserMain {

  private static final List<Class<?>> TESTS = List.of(UserScenarios.class, UserContract.class);

  private UserMain() {}

  /**
   * What became of a test, as a line.
   *
   * @param status such as {@code SUCCESSFUL}
   * @param test its name
   * @param message why it was aborted or has failed
   */
  record Line(String status, String test, String message) {

    private static final String SEPARATOR = "\t";

    static Line parse(String text) {
      String[] words = text.split(SEPARATOR, 3);
      if (words.length != 3) {
        throw new AssertionError("the other JVM says: " + text);
      }
      return new Line(words[0], words[1], words[2]);
    }

    @Override
    public String toString() {
      return status + SEPARATOR + test + SEPARATOR + message.replaceAll("\\s+", " ");
    }
  }

  /**
   * Runs all of them.
   *
   * @param args none
   */
  public static void main(String[] args) {
    LauncherFactory.create()
        .execute(
            LauncherDiscoveryRequestBuilder.request()
                .selectors(TESTS.stream().map(DiscoverySelectors::selectClass).toList())
                .build(),
            new Printer());
    // A test that ran out of time may have left a thread behind.
    System.exit(0);
  }

  private static final class Printer implements TestExecutionListener {

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
      System.out.println(new Line("ABORTED", name(test), reason));
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
      Throwable thrown = result.getThrowable().orElse(null);
      if (test.isTest() || thrown != null) {
        String message = thrown == null ? "" : String.valueOf(thrown.getMessage());
        System.out.println(new Line(result.getStatus().name(), name(test), message));
      }
      if (result.getStatus() == TestExecutionResult.Status.FAILED && thrown != null) {
        thrown.printStackTrace();
      }
    }

    private static String name(TestIdentifier test) {
      return test.getSource()
          .filter(MethodSource.class::isInstance)
          .map(MethodSource.class::cast)
          .map(source -> source.getJavaClass().getSimpleName() + "." + source.getMethodName())
          .orElseGet(test::getDisplayName);
    }
  }
}
