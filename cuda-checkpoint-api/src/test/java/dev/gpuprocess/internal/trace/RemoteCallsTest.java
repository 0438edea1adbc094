package dev.gpuprocess.internal.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.fixtures.Captive;
import dev.gpuprocess.process.ProcessIdentity;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** System calls in threads of real processes, and what these see of it: nothing. */
@RequiresRoot("traces processes")
class RemoteCallsTest {

  private static final Duration LIMIT = Duration.ofSeconds(20);
  private static final int EBADF = 9;

  static ProcessIdentity identity(Captive captive) {
    return ProcessIdentity.of(captive.pid()).orElseThrow();
  }

  private static long pidAsSeenBy(Captive captive) throws Exception {
    return RemoteCalls.borrow(
        identity(captive), LIMIT, thread -> thread.call(SystemCall.GETPID));
  }

  @Test
  void answersTheResultsOfCalls() throws Exception {
    try (Captive captive = Captive.startInFirstThread("futex")) {
      long[] answers =
          RemoteCalls.borrow(
              identity(captive),
              LIMIT,
              thread ->
                  new long[] {
                    thread.call(SystemCall.GETPID), thread.call(SystemCall.GETTID), thread.task()
                  });

      assertEquals(captive.pid(), answers[0]);
      assertEquals(captive.task(), answers[1]);
      assertEquals(captive.task(), answers[2]);
    }
  }

  @Test
  void answersTheErrorsOfCalls() {
    try (Captive captive = Captive.start("futex")) {
      RemoteCallException failed =
          assertThrows(
              RemoteCallException.class,
              () ->
                  RemoteCalls.borrow(
                      identity(captive), LIMIT, thread -> thread.call(SystemCall.CLOSE, 12345)));

      assertEquals(EBADF, failed.errno());
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"poll", "nanosleep", "pending", "spin", "alternate-kept", "churn", "crowd"})
  void threadsThatCheckThemselvesNoticeNothing(String subject) throws Exception {
    for (boolean first : new boolean[] {true, false}) {
      try (Captive captive =
          first ? Captive.startInFirstThread(subject) : Captive.start(subject)) {
        for (int i = 0; i < 20; i++) {
          assertEquals(captive.pid(), pidAsSeenBy(captive));
        }
        captive.awaitTicks();

        assertEquals(0, captive.wrong(), () -> subject + ": line " + captive.line());
      }
    }
  }
}
