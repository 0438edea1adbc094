package dev.gpuprocess.internal.remote;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Captive;
import dev.gpuprocess.internal.linux.LibcFunctions;
import dev.gpuprocess.internal.linux.NativeLibraries;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.Standstill;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.opentest4j.TestAbortedException;

/** System calls in threads of real processes, which notice nothing of them. */
@RequiresRoot("traces processes")
@Tag("slow")
class RemoteCallsTest {

  private static final Duration LIMIT = Duration.ofSeconds(20);
  private static final int EBADF = 9;

  static ProcessIdentity identity(Captive captive) {
    return ProcessIdentity.of(captive.pid()).orElseThrow();
  }

  private static long pidAsSeenBy(Captive captive) throws Exception {
    return RemoteCalls.borrow(identity(captive), LIMIT, thread -> thread.call(SystemCall.GETPID));
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

  /** What the thread makes at the end has a time of its own, and hides no failure. */
  @Test
  void workThatFailsAfterItsDeadlineSaysWhy() {
    try (Captive captive = Captive.start("futex")) {
      Deadline deadline = Deadline.after(Duration.ofSeconds(5));
      AtomicLong mapped = new AtomicLong();
      IOException failed =
          assertThrows(
              IOException.class,
              () ->
                  RemoteCalls.borrow(
                      identity(captive),
                      Duration.ofSeconds(5),
                      thread -> {
                        mapped.set(thread.map(4096));
                        while (!deadline.passed()) {
                          Thread.onSpinWait();
                        }
                        throw new IOException("it is a test");
                      }));

      assertEquals("it is a test", failed.getMessage());
      assertEquals(0, failed.getSuppressed().length);
      assertTrue(
          ProcFs.memory(captive.pid()).stream().noneMatch(each -> each.start() == mapped.get()));
      assertEquals(0, captive.wrong());
    }
  }

  /** Readers that find a traced process wait until its thread is returned. */
  @Test
  void isNoReasonToCallTheProcessTraced() throws Exception {
    try (Captive captive = Captive.start("futex")) {
      CompletableFuture<Optional<Standstill>> asked =
          RemoteCalls.borrow(
              identity(captive),
              LIMIT,
              thread -> {
                CompletableFuture<Optional<Standstill>> question =
                    CompletableFuture.supplyAsync(() -> Standstill.of(captive.pid()));
                // longer than a reader waits for a debugger
                assertThrows(TimeoutException.class, () -> question.get(1500, MILLISECONDS));
                return question;
              });

      assertEquals(Optional.empty(), asked.get(30, SECONDS));
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"poll", "nanosleep", "pending", "spin", "alternate-kept", "churn", "crowd"})
  void threadsThatCheckThemselvesNoticeNothing(String subject) throws Exception {
    for (boolean first : new boolean[] {true, false}) {
      try (Captive captive = first ? Captive.startInFirstThread(subject) : Captive.start(subject)) {
        for (int i = 0; i < 20; i++) {
          assertEquals(captive.pid(), pidAsSeenBy(captive));
        }
        captive.awaitTicks();

        assertEquals(0, captive.wrong(), () -> subject + ": line " + captive.line());
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"futex", "read", "epoll", "sigwait", "sigsuspend"})
  void threadsThatWaitGoOnWaiting(String subject) throws Exception {
    try (Captive captive = Captive.start(subject)) {
      Workload.await(() -> call(captive).matches("(202|0|232|128|130) .*\\s*"), "it to wait");
      String before = call(captive);

      for (int i = 0; i < 20; i++) {
        assertEquals(captive.pid(), pidAsSeenBy(captive));
        Workload.await(() -> call(captive).equals(before), "it to wait again");
      }

      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  private static String call(Captive captive) {
    return ProcFs.read(captive.task(), "syscall").orElse("");
  }

  /**
   * A busy machine makes waits longer, never shorter, so three waits that end in time are proof.
   */
  @ParameterizedTest
  @ValueSource(strings = {"poll", "nanosleep"})
  void theRestOfATimeoutIsKept(String subject) throws Exception {
    try (Captive captive = Captive.startInFirstThread(subject)) {
      captive.awaitTicks();
      int continued = 0;
      Look last = look(captive);
      while (continued < 3) {
        Look now = look(captive);
        continued += now.showsAWaitThatContinued(last) ? 1 : 0;
        last = now;
      }

      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  /** The counter of a thread that waits repeatedly, while it was borrowed, and the time. */
  private record Look(long ticks, long nanos) {

    /** A wait that starts again when the thread is borrowed lasts its whole time from then on. */
    boolean showsAWaitThatContinued(Look before) {
      return ticks == before.ticks + 1 && nanos - before.nanos < Captive.WAIT.toNanos();
    }
  }

  private static Look look(Captive captive) {
    try {
      return RemoteCalls.borrow(
          identity(captive),
          LIMIT,
          thread -> {
            assertEquals(captive.pid(), thread.call(SystemCall.GETPID));
            return new Look(captive.ticks(), System.nanoTime());
          });
    } catch (IOException | UntraceableException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Another thread of the JVM waits for all children, and takes the stops of the tracer. */
  @Test
  void goesOnWhenAnotherThreadOfTheJvmTakesTheStops() throws Exception {
    LibcFunctions libc = NativeLibraries.load(LibcFunctions.class, "c");
    AtomicBoolean over = new AtomicBoolean();
    AtomicLong taken = new AtomicLong();
    try (Captive captive = Captive.startInFirstThread("spin")) {
      Thread thief =
          new Thread(
              () -> {
                while (!over.get()) {
                  byte[] report = new byte[128];
                  // P_PID; __WALL, WSTOPPED, WNOHANG
                  if (libc.waitid(1, captive.task(), report, 0x40000003) == 0 && report[8] != 0) {
                    taken.incrementAndGet();
                  }
                }
              });
      thief.start();
      try {
        Workload.await(
            () -> {
              try {
                return pidAsSeenBy(captive) == captive.pid() && taken.get() > 0;
              } catch (Exception e) {
                throw new IllegalStateException(e);
              }
            },
            "a stop to be taken");
      } finally {
        over.set(true);
        thief.join();
      }
      captive.awaitTicks();
      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  @Test
  void refusesAProcessThatADebuggerHolds() throws Exception {
    Assumptions.assumeTrue(Files.isExecutable(Path.of("/usr/bin/strace")), "strace is not here");
    try (Captive captive = Captive.startInFirstThread("spin")) {
      Process strace =
          new ProcessBuilder("strace", "-p", Integer.toString(captive.pid()))
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .start();
      try {
        Workload.await(
            () -> !ProcFs.status(captive.pid()).getOrDefault("TracerPid", "0").equals("0"),
            "strace to trace");
        UntraceableException why = refusal(captive);

        assertEquals(UntraceableException.Reason.TRACED, why.reason());
        assertTrue(why.getMessage().contains("by process " + strace.pid()), why.getMessage());
      } finally {
        strace.destroy();
        strace.waitFor();
      }
      captive.awaitTicks();
    }
  }

  @Test
  void refuses32BitPrograms(@TempDir Path directory) throws Exception {
    Process process = Program32.start(directory);
    try {
      assertEquals(
          UntraceableException.Reason.BITS_32,
          refusal(ProcessIdentity.of(process.pid()).orElseThrow()));
      assertTrue(process.isAlive());
    } finally {
      process.destroyForcibly().waitFor();
    }
  }

  @Test
  void aKernelThatKills32BitProgramsSkipsTheirTest(@TempDir Path directory) {
    TestAbortedException skipped =
        assertThrows(TestAbortedException.class, () -> Program32.startKilled(directory));

    assertTrue(
        String.valueOf(skipped.getMessage()).contains("this kernel runs no 32-bit programs"),
        skipped.getMessage());
  }

  /** The handler runs once and the call ends as it should, with SA_RESTART and without. */
  @Test
  void aSignalThatComesMeanwhileIsDeliveredAfterwards() throws Exception {
    try (Captive captive = Captive.startInFirstThread("sigsuspend")) {
      Workload.await(() -> call(captive).startsWith("130 "), "it to wait");
      for (int i = 0; i < 10; i++) {
        long handled = captive.value();
        RemoteCalls.borrow(
            identity(captive),
            LIMIT,
            thread -> {
              captive.signal("USR1");
              return thread.call(SystemCall.GETPID);
            });
        Workload.await(() -> captive.value() > handled, "the handler");
        Workload.await(() -> call(captive).startsWith("130 "), "it to wait");
      }

      assertEquals(10, captive.value());
      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  @Test
  void aRestartableSequenceIsAborted() throws Exception {
    try (Captive captive = Captive.startInFirstThread("rseq")) {
      captive.awaitTicks();
      for (int i = 1; i <= 30 || captive.value() == 0; i++) {
        int wish = i;
        RemoteCalls.borrow(
            identity(captive),
            LIMIT,
            thread -> {
              captive.wish(wish);
              return thread.call(SystemCall.GETPID);
            });
      }
      captive.awaitTicks();

      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  @ParameterizedTest
  @CsvSource({
    "alternate-mapped, NO_THREAD",
    "alternate-in-stack, NO_THREAD",
    "coroutine, NO_THREAD",
    "goroutine, NO_THREAD",
    "seccomp-strict, SECCOMP"
  })
  void refusesThreadsThatItCannotRestore(String subject, UntraceableException.Reason reason) {
    try (Captive captive = Captive.startInFirstThread(subject)) {
      captive.awaitTicks();

      assertEquals(reason, refusal(captive).reason());
      captive.awaitTicks();
    }
  }

  private static UntraceableException refusal(Captive captive) {
    return assertThrows(UntraceableException.class, () -> pidAsSeenBy(captive));
  }

  @Test
  void seccompFiltersAreAskedBeforeACall() throws Exception {
    try (Captive allows = Captive.startInFirstThread("seccomp-allows");
        Captive kills = Captive.startInFirstThread("seccomp-kills-madvise")) {
      allows.awaitTicks();
      kills.awaitTicks();

      assertEquals(allows.pid(), pidAsSeenBy(allows));
      assertEquals(kills.pid(), pidAsSeenBy(kills));
      UntraceableException refused =
          assertThrows(
              UntraceableException.class,
              () ->
                  RemoteCalls.borrow(
                      identity(kills), LIMIT, thread -> thread.call(SystemCall.MADVISE, 0, 0, 0)));
      assertEquals(UntraceableException.Reason.SECCOMP, refused.reason());
      kills.awaitTicks();
    }
  }

  @Test
  void refusesAProcessThatATracerHolds() throws Exception {
    try (Captive captive = Captive.startInFirstThread("spin")) {
      UntraceableException why =
          RemoteCalls.borrow(identity(captive), LIMIT, thread -> refusal(captive));

      assertEquals(UntraceableException.Reason.TRACED, why.reason());
      assertTrue(why.getMessage().contains("process " + ProcessHandle.current().pid()));
    }
  }

  @Test
  void refusesAStoppedProcessAndLeavesItStopped() throws Exception {
    try (Captive captive = Captive.startInFirstThread("spin")) {
      captive.signal("STOP");
      Workload.await(() -> state(captive) == 'T', "it to stop");

      assertEquals(UntraceableException.Reason.STOPPED, refusal(captive).reason());

      assertEquals('T', state(captive));
      captive.signal("CONT");
      captive.awaitTicks();
    }
  }

  @Test
  void aStopThatComesMeanwhileHoldsAfterwards() throws Exception {
    try (Captive captive = Captive.startInFirstThread("spin")) {
      long pid =
          RemoteCalls.borrow(
              identity(captive),
              LIMIT,
              thread -> {
                captive.signal("STOP");
                return thread.call(SystemCall.GETPID);
              });

      assertEquals(captive.pid(), pid);
      Workload.await(() -> state(captive) == 'T', "it to stop");
      captive.signal("CONT");
      captive.awaitTicks();
      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  private static char state(Captive captive) {
    return ProcFs.stat(captive.pid()).orElseThrow().state();
  }

  @Test
  void refusesEndedProcessesAndThisJvm() {
    Captive captive = Captive.start("futex");
    ProcessIdentity gone = identity(captive);
    captive.close();

    assertEquals(UntraceableException.Reason.GONE, refusal(gone));
    assertEquals(
        UntraceableException.Reason.OURSELVES,
        refusal(ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow()));
    assertEquals(
        UntraceableException.Reason.GONE,
        refusal(new ProcessIdentity(gone.pid(), gone.startTicks() + 1)));
  }

  private static UntraceableException.Reason refusal(ProcessIdentity process) {
    return assertThrows(
            UntraceableException.class,
            () -> RemoteCalls.borrow(process, LIMIT, thread -> thread.call(SystemCall.GETPID)))
        .reason();
  }

  /** The JDK waits for the exit of its children, and takes a stop of a first thread for an exit. */
  @Test
  void leavesTheFirstThreadOfAChildOfThisJvmAlone() throws Exception {
    Process child = new ProcessBuilder("sleep", "100").start();
    try {
      assertEquals(
          UntraceableException.Reason.NO_THREAD,
          refusal(ProcessIdentity.of(child.pid()).orElseThrow()));
      assertTrue(child.isAlive());
    } finally {
      child.destroyForcibly().waitFor();
    }
  }

  /** The death of the process in the middle is reported, and harms no other process. */
  @Test
  void throwsIfTheProcessIsKilledMeanwhile() {
    try (Captive captive = Captive.start("spin")) {
      UntraceableException lost =
          assertThrows(
              UntraceableException.class,
              () ->
                  RemoteCalls.borrow(
                      identity(captive),
                      LIMIT,
                      thread -> {
                        captive.signal("KILL");
                        for (; ; ) {
                          thread.call(SystemCall.GETPID);
                        }
                      }));
      assertEquals(UntraceableException.Reason.GONE, lost.reason());
    }
  }
}
