package dev.gpuprocess.contract;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Commands that run a main class of the tests in a JVM of its own. */
public final class TestJvm {

  /**
   * It lives for seconds: the second compiler, a parallel collector, early compilation and the
   * verification of what javac has made cost more than they give.
   */
  private static final List<String> QUICK =
      List.of(
          "-XX:TieredStopAtLevel=1",
          "-XX:CompileThresholdScaling=4",
          "-XX:+UseSerialGC",
          "-Xshare:auto",
          "-XX:-UsePerfData",
          "-XX:+UnlockDiagnosticVMOptions",
          "-XX:-BytecodeVerificationRemote");

  private TestJvm() {}

  /** The {@code java} that runs the tests. */
  public static String java() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }

  /** The class path of the tests; surefire hides it behind a jar of its own. */
  public static String classPath() {
    return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
  }

  /** How a command begins that runs a JVM which is quick to start, with more options. */
  public static List<String> quick(List<String> options) {
    List<String> command = new ArrayList<>(List.of(java()));
    command.addAll(QUICK);
    command.addAll(options);
    return command;
  }

  /** What runs a main class of the tests in a JVM that is quick to start. */
  public static List<String> command(Class<?> main, String... arguments) {
    return command(List.of(), main, arguments);
  }

  /** The same by way of a command that executes its arguments. */
  public static List<String> commandBy(List<String> by, Class<?> main, String... arguments) {
    List<String> command = new ArrayList<>(by);
    command.addAll(command(main, arguments));
    return command;
  }

  /** The same with more options. */
  public static List<String> command(List<String> options, Class<?> main, String... arguments) {
    List<String> command = quick(options);
    command.addAll(List.of("-cp", classPath(), main.getName()));
    command.addAll(List.of(arguments));
    return command;
  }

  /**
   * How a command begins that runs a JVM as the first process of a pid namespace. It leads a
   * session of its own: what is in one that is led from outside cannot be dumped.
   */
  public static List<String> inPidNamespace() {
    return List.of("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "setsid");
  }

  /** Runs one to its end, and fails if its last line is another. */
  public static void assertEndsSaying(String last, List<String> command)
      throws IOException, InterruptedException {
    Process jvm = new ProcessBuilder(command).redirectErrorStream(true).start();
    try {
      String said = new String(jvm.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(last, said.lines().reduce((first, next) -> next).orElse(""), said);
      jvm.waitFor(60, TimeUnit.SECONDS);
    } finally {
      jvm.destroyForcibly();
    }
  }

  /** Kills one, and waits until it is gone. */
  public static void end(Process jvm) {
    jvm.destroyForcibly();
    try {
      jvm.waitFor();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
