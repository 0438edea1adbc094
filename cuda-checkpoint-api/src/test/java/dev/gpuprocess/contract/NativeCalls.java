package dev.gpuprocess.contract;

import dev.gpuprocess.GpuCheckpoints;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.awaitility.Awaitility;

/** Calls of native functions that are under way in this JVM. */
public final class NativeCalls {

  private static final int SECONDS = 60;

  private NativeCalls() {}

  /**
   * Waits until a thread is in a call of a function.
   *
   * @param function its name
   */
  public static void await(String function) {
    Awaitility.await()
        .atMost(SECONDS, TimeUnit.SECONDS)
        .until(
            () ->
                Thread.getAllStackTraces().values().stream()
                    .flatMap(Arrays::stream)
                    .anyMatch(frame -> frame.getMethodName().equals(function)));
  }

  /** Waits until no call is left behind by an earlier test of this JVM. */
  public static void awaitNoneLeftBehind() {
    Awaitility.await()
        .atMost(SECONDS, TimeUnit.SECONDS)
        .until(() -> GpuCheckpoints.abandonedCalls() == 0);
  }
}
