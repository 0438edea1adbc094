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
   * These JVMs live for seconds: the second compiler, a parallel collector, early compilation and
   * the verification of classes cost more than they gain.
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

  /** Returns the {@code java} that runs the tests. */
  public static String java() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }

  /** Returns the class path of the tests; surefire hides it behind a jar of its own. */
  public static String classPath() {
    return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
  }

  /** Returns the start of a command for a JVM that starts quickly. */
  public static List<String> start(String... options) {
    List<String> command = new ArrayList<>(List.of(java()));
    command.addAll(QUICK);
    command.addAll(List.of(options));
    return command;
  }

  /**
   * Returns the start of a command for a JVM that starts quickly and has the class path of the
   * tests, with more options. Its classes come from jars.
   */
  public static List<String> quick(List<String> options) {
    List<String> command = start(options.toArray(String[]::new));
    command.addAll(ClassArchive.options());
    return command;
  }

  /** Returns the command that runs a main class of the tests in a JVM that starts quickly. */
  public static List<String> command(Class<?> main, String... arguments) {
    return command(List.of(), main, arguments);
  }

  /** Returns such a command, run by another command that executes its arguments. */
  public static List<String> commandBy(List<String> by, Class<?> main, String... arguments) {
    List<String> command = new ArrayList<>(by);
    command.addAll(command(main, arguments));
    return command;
  }

  /** Returns such a command with more options of the JVM. */
  public static List<String> command(List<String> options, Class<?> main, String... arguments) {
    List<String> command = quick(options);
    command.add(main.getName());
    command.addAll(List.of(arguments));
    return command;
  }

  /**
   * Returns the start of a command that runs a JVM as the first process of a pid namespace. The JVM
   * leads a session of its own: processes of a session led from outside cannot be dumped.
   */
  public static List<String> inPidNamespace() {
    return List.of("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "setsid");
  }

  /** Runs a command to its end, and fails if its last line differs. */
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

  /** Kills a JVM, and waits until it has exited. */
  public static void end(Process jvm) {
    jvm.destroyForcibly();
    try {
      jvm.waitFor();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
