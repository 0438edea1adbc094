package dev.gpuprocess.criu;

import java.nio.file.Path;

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
}
