package dev.gpuprocess.criu;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What a JVM of its own needs to run what the tests have. */
public final class TestJvm {

  private TestJvm() {}

  /** The {@code java} that runs the tests. */
  public static String java() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }

  /** The class path of the tests; surefire hides it behind a jar of its own. */
  public static String classPath() {
    return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
  }

  /** What runs a main class of the tests in a JVM that is quick to start. */
  static List<String> command(Class<?> main, String... arguments) {
    List<String> command =
        new ArrayList<>(
            List.of(java(), "-XX:TieredStopAtLevel=1", "-cp", classPath(), main.getName()));
    command.addAll(List.of(arguments));
    return command;
  }

  /** Kills one, and waits until it is gone. */
  static void end(Process jvm) {
    jvm.destroyForcibly();
    try {
      jvm.waitFor();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
