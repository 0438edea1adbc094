package dev.gpuprocess.internal.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Captive;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The tracer ends before each of its requests in turn. The kernel treats a tracer that ends like
 * one that is killed.
 */
@RequiresRoot("traces processes")
@Tag("slow")
class TracerKilledTest {

  private static final Duration LIMIT = Duration.ofSeconds(20);

  /** More requests than the work of a tracer needs. */
  private static final int MOST = 100;

  private static final class Killed extends Error {
    private static final long serialVersionUID = 1;
  }

  private static void session(Captive captive, int requests, RemoteWork<RemoteThread, ?> work)
      throws Exception {
    AtomicInteger left = new AtomicInteger(requests);
    RemoteCalls.borrow(
        ProcessIdentity.of(captive.pid()).orElseThrow(),
        LIMIT,
        task -> true,
        work,
        () ->
            new Ptrace(
                request -> {
                  if (left.decrementAndGet() < 0) {
                    throw new Killed();
                  }
                }));
  }

  private static boolean calls(RemoteThread thread)
      throws UntraceableException, RemoteCallException, NativeCallException {
    thread.call(SystemCall.GETPID);
    long scratch = thread.map(8192);
    thread.call(SystemCall.MADVISE, scratch, 8192, 4);
    thread.unmap(scratch, 8192);
    return true;
  }

  /** A thread that starts another one blocks all signals for a moment. */
  private static String blocked(Captive captive) {
    AtomicReference<String> blocked = new AtomicReference<>("");
    Workload.await(
        () -> {
          blocked.set(ProcFs.status(captive.task()).getOrDefault("SigBlk", "?"));
          return !blocked.get().startsWith("ffff");
        },
        "thread " + captive.task() + " to have signals that are not blocked");
    return blocked.get();
  }

  private static boolean isFree(Captive captive) {
    return ProcFs.status(captive.task()).getOrDefault("TracerPid", "?").equals("0");
  }

  private static String call(Captive captive) {
    return ProcFs.read(captive.task(), "syscall").orElse("");
  }

  private static boolean killAll(Captive captive, Runnable check) throws Exception {
    return killAll(captive, TracerKilledTest::calls, check);
  }

  private static boolean killAll(Captive captive, RemoteWork<RemoteThread, ?> work, Runnable check)
      throws Exception {
    for (int requests = 0; requests < MOST; requests++) {
      int allowed = requests;
      try {
        session(captive, allowed, work);
        assertTrue(requests > 20, "the session was killed " + requests + " times only");
        return true;
      } catch (Killed expected) {
        Workload.await(() -> isFree(captive), "the kernel to let go");
        check.run();
        assertEquals(
            0,
            captive.wrong(),
            () -> "after %s requests: line %s".formatted(allowed, captive.line()));
      }
    }
    return false;
  }

  @ParameterizedTest
  @ValueSource(strings = {"spin", "pending", "alternate-kept", "crowd", "rseq"})
  void threadsThatRunNoticeNothing(String subject) throws Exception {
    try (Captive captive =
        subject.equals("crowd") ? Captive.start(subject) : Captive.startInFirstThread(subject)) {
      captive.awaitTicks();
      String blocked = blocked(captive);

      assertTrue(killAll(captive, captive::awaitTicks));

      assertEquals(blocked, blocked(captive));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"poll", "nanosleep"})
  void timesAreNotShortened(String subject) throws Exception {
    try (Captive captive = Captive.start(subject)) {
      assertTrue(killAll(captive, () -> {}));
      captive.awaitTicks();

      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"futex", "read", "sigsuspend"})
  void threadsThatWaitGoOnWaiting(String subject) throws Exception {
    try (Captive captive = Captive.startInFirstThread(subject)) {
      Workload.await(() -> call(captive).matches("(202|0|130) .*\\s*"), "it to wait");
      String before = call(captive);
      String blocked = blocked(captive);
      Runnable waitAgain =
          () -> Workload.await(() -> call(captive).equals(before), "it to wait again");

      assertTrue(killAll(captive, waitAgain));

      // On its way back into sigsuspend it has its own mask for a moment.
      waitAgain.run();
      assertEquals(blocked, blocked(captive));
    }
  }

  @Test
  void aSignalThatTheTracerHasSeenIsDelivered() throws Exception {
    try (Captive captive = Captive.startInFirstThread("sigsuspend")) {
      Workload.await(() -> call(captive).startsWith("130 "), "it to wait");
      FutureTask<Boolean> seen =
          new FutureTask<>(
              () -> {
                Ptrace ptrace = new Ptrace();
                ptrace.seize(captive.task());
                captive.signal("USR1");
                return Polling.until(LIMIT, () -> ptrace.reportedStop(captive.task()).isPresent());
              });
      Thread tracer = new Thread(seen);
      tracer.start();
      tracer.join();

      assertTrue(seen.get());
      Workload.await(() -> captive.value() == 1, "the handler");
    }
  }

  /** Also a descriptor that was received just now is closed. */
  @Test
  void noDescriptorStaysOpen() throws Exception {
    int descriptor = Descriptors.openToRead(Path.of("/dev/zero"));
    try (Captive captive = Captive.startInFirstThread("spin")) {
      captive.awaitTicks();
      int open = ProcFs.openFiles(captive.pid()).size();

      assertTrue(
          killAll(
              captive,
              thread -> {
                try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
                  return passed.number();
                }
              },
              () -> {
                captive.awaitTicks();
                assertEquals(open, ProcFs.openFiles(captive.pid()).size());
              }));
    } finally {
      Descriptors.close(descriptor);
    }
  }
}
