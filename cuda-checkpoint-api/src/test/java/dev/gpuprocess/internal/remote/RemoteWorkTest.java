package dev.gpuprocess.internal.remote;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Captive;
import dev.gpuprocess.fixtures.Holder;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessDescriptor;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.ThrowingSupplier;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Work with remote calls: passed descriptors, and processes whose threads are stopped. */
@RequiresRoot("traces processes")
@Tag("slow")
class RemoteWorkTest {

  private static final Duration LIMIT = Duration.ofSeconds(20);
  private static final int INTERRUPTS = 50;
  private static final int READ = 1;
  private static final int PRIVATE_FIXED = 0x12;

  private static int descriptors(int pid) {
    return ProcFs.openFiles(pid).size();
  }

  /**
   * Returns the mapped addresses of a process, however the kernel divides them into mappings. The
   * stack is left out, since the frames of a remote call may make it grow.
   */
  private static List<AddressRange> mapped(Captive captive) {
    List<AddressRange> joined = new ArrayList<>();
    for (Mapping each : ProcFs.memory(captive.pid())) {
      int last = joined.size() - 1;
      if (Set.of("[stack]", "[vsyscall]").contains(each.name())) {
        continue;
      }
      if (last >= 0 && joined.get(last).end() == each.start()) {
        joined.set(last, new AddressRange(joined.get(last).start(), each.end()));
      } else {
        joined.add(each.addresses());
      }
    }
    return joined;
  }

  private static ProcessIdentity identity(Captive captive) {
    return ProcessIdentity.of(captive.pid()).orElseThrow();
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void passesADescriptor(boolean first, @TempDir Path directory) throws Exception {
    byte[] text = "written by another process".getBytes(StandardCharsets.UTF_8);
    Path file = Files.write(directory.resolve("file"), text);
    int descriptor = Descriptors.openToRead(file);
    Files.delete(file); // so that it cannot be found by its name
    try (Captive captive = first ? Captive.startInFirstThread("spin") : Captive.start("spin")) {
      captive.awaitTicks();
      int before = descriptors(captive.pid());
      List<AddressRange> mapped = mapped(captive);
      byte[] seen =
          RemoteCalls.borrow(
              identity(captive),
              LIMIT,
              thread -> {
                try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
                  long at = thread.map(4096);
                  thread.call(SystemCall.MMAP, at, 4096, READ, PRIVATE_FIXED, passed.number(), 0);
                  byte[] there = thread.memory().read(at, text.length);
                  thread.unmap(at, 4096);
                  return there;
                }
              });

      assertArrayEquals(text, seen);
      assertEquals(before, descriptors(captive.pid()));
      assertEquals(mapped, mapped(captive));
      captive.awaitTicks();
      assertEquals(0, captive.wrong());
    } finally {
      Descriptors.close(descriptor);
    }
  }

  /** Descriptor 0 is not mistaken for a descriptor that was not received. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2, 3})
  void aProcessWithoutNumbersToSpareIsGivenNone(int spare) throws Exception {
    int descriptor = Descriptors.openToRead(Path.of("/dev/zero"));
    try (Captive captive = Captive.startInFirstThread("spin")) {
      captive.awaitTicks();
      List<String> before = targets(captive.pid());
      Process limit =
          new ProcessBuilder(
                  "prlimit",
                  "--pid=" + captive.pid(),
                  "--nofile=%s:".formatted(before.size() + spare))
              .start();
      assertEquals(0, limit.waitFor());
      ThrowingSupplier<Integer> work =
          () ->
              RemoteCalls.borrow(
                  identity(captive),
                  LIMIT,
                  thread -> {
                    try (PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor)) {
                      return passed.number();
                    }
                  });
      if (spare < 3) {
        IOException e = assertThrows(IOException.class, work::get);
        assertTrue(e.getMessage().contains("prlimit --nofile"), e.getMessage());
      } else {
        assertTrue(assertDoesNotThrow(work) > 0);
      }

      assertEquals(before, targets(captive.pid()));
      captive.awaitTicks();
    } finally {
      Descriptors.close(descriptor);
    }
  }

  private static List<String> targets(int pid) {
    List<String> targets = new ArrayList<>();
    ProcFs.openFiles(pid, file -> targets.add(file.target()));
    return targets;
  }

  @Test
  void workThatFailsLeavesNothingBehind() throws Exception {
    Path file = Path.of("/dev/null");
    int descriptor = Descriptors.openToRead(file);
    try (Captive captive = Captive.startInFirstThread("spin")) {
      captive.awaitTicks();
      int before = descriptors(captive.pid());
      List<AddressRange> mapped = mapped(captive);
      assertThrows(
          RemoteCallException.class,
          () ->
              RemoteCalls.borrow(
                  identity(captive),
                  LIMIT,
                  thread -> {
                    thread.map(4096);
                    PassedDescriptor passed = PassedDescriptor.pass(thread, descriptor);
                    return thread.call(
                        SystemCall.MMAP, 0, 4096, READ, PRIVATE_FIXED, passed.number(), 0);
                  }));

      assertEquals(before, descriptors(captive.pid()));
      assertEquals(mapped, mapped(captive));
      captive.awaitTicks();
      assertEquals(0, captive.wrong());
    } finally {
      Descriptors.close(descriptor);
    }
  }

  @Test
  void aCallThatWaitsIsGivenUpAndTheThreadComesBack() throws Exception {
    try (Captive captive = Captive.startInFirstThread("spin")) {
      captive.awaitTicks();
      // A socket that no process writes to. Closing its other end lets the thread continue.
      int[] ends = new int[2];
      do { // on a busy machine the time may end before the socket pair exists
        UntraceableException late =
            assertThrows(
                UntraceableException.class,
                () ->
                    RemoteCalls.borrow(
                        identity(captive),
                        Duration.ofMillis(500),
                        thread -> {
                          long scratch = thread.map(4096);
                          thread.call(SystemCall.SOCKETPAIR, 1, 1, 0, scratch);
                          long pair = thread.memory().readLong(scratch);
                          ends[0] = (int) pair;
                          ends[1] = (int) (pair >>> 32);
                          return thread.call(SystemCall.READ, ends[0], scratch, 1);
                        }));
        assertEquals(UntraceableException.Reason.TIME, late.reason());
      } while (ends[1] == 0);
      Workload.await(
          () -> ProcFs.status(captive.task()).getOrDefault("TracerPid", "?").equals("0"),
          "the kernel to let go");
      int socket = ProcessDescriptor.take(captive.pid(), captive.task(), ends[1]);
      try {
        ProcessDescriptor.send(socket, 0);
      } finally {
        Descriptors.close(socket);
      }
      captive.awaitTicks();
      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"crowd", "spin", "poll", "epolls", "vforking"})
  void aProcessStandsStillWhileItIsHeld(String subject) throws Exception {
    try (Captive captive = Captive.start(subject)) {
      if (!subject.equals("epolls")) {
        captive.awaitTicks();
      }
      for (int i = 0; i < 10; i++) {
        StoppedThreads.during(
            identity(captive),
            LIMIT,
            held -> {
              long ticks = captive.ticks();
              assertEquals(
                  captive.pid(), held.<Long>borrow(thread -> thread.call(SystemCall.GETPID)));
              assertTrue(
                  ProcFs.tasks(captive.pid()).stream()
                      .allMatch(thread -> thread.isStopped() || thread.isDead()));
              assertEquals(
                  captive.pid(), held.<Long>borrow(thread -> thread.call(SystemCall.GETPID)));
              assertFalse(held.firstThreadRuns());
              assertTrue(held.count() > 0);
              assertEquals(ticks, captive.ticks());
              return null;
            });
        if (!subject.equals("epolls")) {
          captive.awaitTicks();
        }
      }

      assertEquals(0, captive.wrong(), () -> "line " + captive.line());
    }
  }

  /** The kernel does not report the end of a first thread before that of all others. */
  @Test
  void aProcessThatIsKilledWhileItIsBeingHeldIsNotWaitedFor() throws Exception {
    try (Holder holder = Holder.launch(1).notOurChild().start()) {
      int pid = Math.toIntExact(holder.pid());
      ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
      UntraceableException gone =
          assertThrows(
              UntraceableException.class,
              () ->
                  TracerThread.run(
                      pid,
                      Deadline.after(LIMIT),
                      Ptrace::new,
                      ptrace -> {
                        Map<Integer, Tracee> threads = new HashMap<>();
                        for (int task : ProcFs.threads(pid)) {
                          threads.put(task, Tracee.seize(ptrace, process, task));
                        }
                        assertTrue(threads.size() > 1);
                        assertTrue(ProcessHandle.of(pid).orElseThrow().destroyForcibly());
                        return threads.get(pid).awaitTrap(Deadline.after(LIMIT));
                      }));
      assertEquals(UntraceableException.Reason.GONE, gone.reason());
    }
  }

  /**
   * The kernel does not report the end of a first thread while other threads live, and {@code
   * /proc/PID} shows one of these in its place.
   */
  @Test
  void aFirstThreadThatEndsBeforeItStopsIsNotWaitedFor() throws Exception {
    try (Captive captive = Captive.startInFirstThread("leaving")) {
      UntraceableException gone =
          assertThrows(
              UntraceableException.class,
              () ->
                  TracerThread.run(
                      captive.pid(),
                      Deadline.after(LIMIT),
                      Ptrace::new,
                      ptrace -> {
                        Tracee first = Tracee.seize(ptrace, identity(captive), captive.pid());
                        captive.wish(1);
                        Workload.await(() -> hasNoFirstThread(captive), "the thread to end");
                        return first.awaitTrap(Deadline.after(LIMIT));
                      }));

      assertEquals(UntraceableException.Reason.GONE, gone.reason());
      assertEquals(
          1, StoppedThreads.<Integer>during(identity(captive), LIMIT, StoppedThreads::count));
      captive.awaitTicks();
    }
  }

  private static boolean hasNoFirstThread(Captive captive) {
    return ProcFs.stat(captive.pid()).orElseThrow().firstThreadEnded();
  }

  /** A thread can end between the listing of the threads and the request to trace it. */
  @Test
  void aFirstThreadThatHasEndedIsGoneAndNotForbidden() {
    try (Captive captive = Captive.start("spin")) {
      Workload.await(() -> hasNoFirstThread(captive), "the first thread to end");
      UntraceableException gone =
          assertThrows(
              UntraceableException.class,
              () ->
                  TracerThread.run(
                      captive.pid(),
                      Deadline.after(LIMIT),
                      Ptrace::new,
                      ptrace -> Tracee.seize(ptrace, identity(captive), captive.pid())));

      assertEquals(UntraceableException.Reason.GONE, gone.reason());
    }
  }

  /** The kernel forgets an interrupt at a stop of another kind. */
  @Test
  void anInterruptIsHeededByAThreadThatComesToASystemCallFirst() throws Exception {
    try (Holder holder = Holder.launch(1).notOurChild().start()) {
      int pid = Math.toIntExact(holder.pid());
      ProcessIdentity process = ProcessIdentity.of(pid).orElseThrow();
      for (int i = 0; i < INTERRUPTS; i++) {
        long nanos = i * 4_000L;
        Tracee.Stop stop =
            TracerThread.run(
                pid,
                Deadline.after(LIMIT),
                Ptrace::new,
                ptrace -> interruptTwice(ptrace, process, nanos));
        assertEquals(Tracee.Stop.TRAP, stop);
      }
    }
  }

  /** Interrupts a thread again when it is about to restart its call, or has restarted it. */
  private static Tracee.Stop interruptTwice(Ptrace ptrace, ProcessIdentity process, long nanos)
      throws UntraceableException, NativeCallException {
    Tracee thread = Tracee.seize(ptrace, process, process.pid());
    thread.beginInterrupt();
    assertEquals(Tracee.Stop.TRAP, thread.awaitTrap(Deadline.after(LIMIT)));
    long until = System.nanoTime() + nanos;
    ptrace.resumeToSystemCall(process.pid(), 0);
    while (System.nanoTime() - until < 0) {
      Thread.onSpinWait();
    }
    thread.beginInterrupt();
    return thread.awaitTrap(Deadline.after(LIMIT));
  }

  @Test
  void theFirstThreadOfAChildOfThisJvmRunsOn() throws Exception {
    Process child = new ProcessBuilder("sleep", "100").start();
    try {
      boolean runs =
          StoppedThreads.during(
              ProcessIdentity.of(child.pid()).orElseThrow(),
              LIMIT,
              StoppedThreads::firstThreadRuns);

      assertTrue(runs);
      assertTrue(child.isAlive());
    } finally {
      child.destroyForcibly().waitFor();
    }
  }

  /** A JVM has its own signal handlers, guards its stacks, and stops its threads by faults. */
  @Test
  void aJvmNoticesNothing(@TempDir Path directory) throws Exception {
    Path counter = directory.resolve("counter");
    Process java =
        new ProcessBuilder(TestJvm.command(List.of("-Xmx64m"), BusyJvm.class, counter.toString()))
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve("output").toFile())
            .start();
    try {
      Workload.await(() -> Files.exists(counter) || !java.isAlive(), "the JVM to count");
      ProcessIdentity process = ProcessIdentity.of(java.pid()).orElseThrow();
      for (int i = 0; i < 30; i++) {
        assertEquals(
            java.pid(),
            RemoteCalls.<Long>borrow(process, LIMIT, thread -> thread.call(SystemCall.GETPID)));
      }
      StoppedThreads.during(process, LIMIT, held -> held.borrow(thread -> thread.map(4096)));
      long before = number(counter);
      Workload.await(() -> number(counter) > before, "the JVM to count on");
      assertTrue(java.isAlive(), () -> "it ended");
    } finally {
      java.destroyForcibly().waitFor();
    }
  }

  /** A program that collects garbage in some threads, and counts in another. */
  static final class BusyJvm {

    private static final int THREADS = 2;

    private BusyJvm() {}

    /**
     * Runs the program.
     *
     * @param args the file for the number
     */
    public static void main(String... args) throws Exception {
      for (int i = 0; i < THREADS; i++) {
        new Thread(BusyJvm::makeGarbage).start();
      }
      for (long i = 1; ; i++) {
        Thread.sleep(1);
        Files.writeString(Path.of(args[0]), Long.toString(i));
      }
    }

    @SuppressWarnings({"InfiniteLoopStatement", "ThreadPriorityCheck"}) // stopped at any moment
    private static void makeGarbage() {
      byte[][] kept = new byte[100][];
      for (int i = 0; ; i++) {
        kept[i % kept.length] = new byte[10_000];
        Thread.yield();
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"sys_ptrace, spin, NOT_PERMITTED", "sys_admin, seccomp-allows, SECCOMP"})
  void refusesWhereThisUserMayNot(String capability, String subject, String reason)
      throws Exception {
    Assumptions.assumeTrue(Files.isExecutable(Path.of("/usr/bin/setpriv")), "setpriv is not here");
    try (Captive captive = Captive.startInFirstThread(subject)) {
      captive.awaitTicks();
      Process borrower =
          new ProcessBuilder(
                  TestJvm.commandBy(
                      List.of(
                          "setpriv", "--bounding-set=-" + capability, "--inh-caps=-" + capability),
                      RemoteCallsKills.Borrower.class,
                      Integer.toString(captive.pid())))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      String answer = new String(borrower.getInputStream().readAllBytes(), StandardCharsets.UTF_8);

      assertEquals(reason, answer);
      assertEquals(3, borrower.waitFor());
      captive.awaitTicks();
    }
  }

  private static long number(Path file) {
    try {
      String text = Files.readString(file);
      return text.isEmpty() ? 0 : Long.parseLong(text);
    } catch (java.io.IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void mappingsTellWhatMayBeDoneWithThem() {
    List<Mapping> own = ProcFs.memory(ProcessHandle.current().pid());

    assertTrue(own.stream().anyMatch(each -> each.permissions().equals("r-xp")));
    assertTrue(own.stream().anyMatch(each -> each.name().equals("[stack]")));
  }
}
