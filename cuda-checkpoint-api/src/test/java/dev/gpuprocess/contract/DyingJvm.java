package dev.gpuprocess.contract;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A JVM of its own that dies in the middle of what it does. */
public final class DyingJvm {

  private static final int PATIENCE_SECONDS = 180;

  private DyingJvm() {}

  /**
   * Starts a main class of the tests in a JVM that is quick to start.
   *
   * @param main what it runs
   * @param arguments to that
   * @return the JVM; its errors go where ours go
   */
  public static Process start(Class<?> main, List<String> arguments) throws IOException {
    List<String> command =
        TestJvm.command(List.of("-Xmx32m"), main, arguments.toArray(String[]::new));
    return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
  }

  /**
   * Waits until it exits, or kills it.
   *
   * @param begins its first line
   * @param nanos the time until it is killed; negative if it exits without that
   * @return whether it was killed
   * @throws IllegalStateException when it says something else, or does not end
   */
  public static boolean awaitEnd(Process jvm, String begins, long nanos) {
    try (BufferedReader output = jvm.inputReader()) {
      if (!begins.equals(output.readLine())) {
        throw new IllegalStateException("the JVM did not begin");
      }
      boolean killed = false;
      if (nanos >= 0) {
        LockSupport.parkNanos(nanos);
        killed = jvm.isAlive();
        jvm.destroyForcibly();
      }
      if (!jvm.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the JVM does not end");
      }
      return killed;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } finally {
      jvm.destroyForcibly();
    }
  }
}
