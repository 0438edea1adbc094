package dev.gpuprocess.internal.remote;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.fixtures.Captive;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.report.ProcessIdentity;
import java.time.Duration;
import java.util.Arrays;

/** Measures how long a thread is borrowed, from the interruption until it continues. */
final class BorrowedTime {

  private BorrowedTime() {}

  /**
   * Runs the measurement.
   *
   * @param args the number of calls, and the subject
   */
  public static void main(String... args) throws Exception {
    int times = Integer.parseInt(args[0]);
    try (Captive captive = Captive.startInFirstThread(args[1])) {
      ProcessIdentity process = ProcessIdentity.of(captive.pid()).orElseThrow();
      long first = 0;
      for (int calls : new int[] {0, 1, 10}) {
        long[] nanos = new long[times];
        long whole = System.nanoTime();
        for (int i = 0; i < times; i++) {
          nanos[i] = one(process, calls);
          first = first == 0 ? nanos[i] : first;
        }
        whole = (System.nanoTime() - whole) / times;
        Arrays.sort(nanos);
        System.out.printf(
            "%s: %d calls: borrowed %.0f us (median), %.0f (least), %.0f (99 %%); with the search %.0f us (mean); the very first %.0f us%n",
            args[1],
            calls,
            nanos[times / 2] / 1e3,
            nanos[0] / 1e3,
            nanos[times * 99 / 100] / 1e3,
            whole / 1e3,
            first / 1e3);
        if (calls == 1) {
          Figures.add(
              "remote calls: a thread is borrowed for %.0f us".formatted(nanos[times / 2] / 1e3));
        }
      }
    }
  }

  private static long one(ProcessIdentity process, int calls) throws Exception {
    long[] at = new long[2];
    RemoteCalls.borrow(
        process,
        Duration.ofSeconds(20),
        task -> true,
        thread -> {
          for (int i = 0; i < calls; i++) {
            thread.call(SystemCall.GETPID);
          }
          return null;
        },
        () ->
            new Ptrace(
                request -> {
                  at[1] = System.nanoTime(); // the last request detaches it
                  if (request.startsWith("PTRACE_INTERRUPT") && at[0] == 0) {
                    at[0] = at[1];
                  }
                }));
    return at[1] - at[0];
  }
}
