package dev.gpuprocess.internal.launch;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.linux.PidDescriptor;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Guards that do not begin. */
class GuardTest {

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  @TempDir private Path directory;

  /** Its socket is closed then, and the descriptor may belong to another thread already. */
  @Test
  void aGuardThatDoesNotAnswerInTimeIsEnded() throws IOException {
    try (Workload idle = Workload.idle();
        PidDescriptor held = PidDescriptor.open((int) idle.pid())) {
      ProcessIdentity root = ProcessIdentity.of(idle.pid()).orElseThrow();
      String message = "";
      while (message.isEmpty()) {
        message = late(root, held);
      }
      assertEquals(
          "the guard of process %s did not begin within 0 ms".formatted(root.pid()), message);
      assertTrue(idle.isAlive());
    }
  }

  /** As when a scheduler sends it to all processes of a job, this JVM among them. */
  @Test
  void aGuardIsNotEndedBySigterm() throws IOException {
    try (Workload idle = Workload.idle();
        PidDescriptor held = PidDescriptor.open((int) idle.pid())) {
      ProcessIdentity root = ProcessIdentity.of(idle.pid()).orElseThrow();
      Set<Integer> before = children();
      Guard guard = Guard.start(root, held, true, directory.resolve("entry"), PATIENCE);
      Set<Integer> started = children();
      started.removeAll(before);
      assertEquals(1, started.size(), started::toString);
      Signal.send("TERM", started.iterator().next());
      guard.detach();
      assertTrue(guard.reap(), "it ended by the order, not by the signal");
      assertTrue(idle.isAlive());
    }
  }

  /** The root is reaped, and its child was started after the guard looked last. */
  @Test
  void theRestOfASessionIsEndedAfterItsRoot() throws Exception {
    Path killed = directory.resolve("killed");
    Path child = directory.resolve("child");
    String script =
        """
        trap '' TERM; trap 'sleep 600 & echo $! > %2$s.new; mv %2$s.new %2$s; exit' USR1
        (trap - TERM; exec sh -c 'echo $$ > %1$s.new; mv %1$s.new %1$s; exec sleep 700') &
        while :; do wait; done
        """
            .formatted(killed, child);
    Process session = new ProcessBuilder("setsid", "sh", "-c", script).start();
    try (PidDescriptor held = PidDescriptor.open((int) session.pid())) {
      ProcessIdentity first = written(killed);
      ProcessIdentity root = ProcessIdentity.of(session.pid()).orElseThrow();
      Set<Integer> before = children();
      Guard guard = Guard.start(root, held, true, directory.resolve("entry"), PATIENCE);
      Set<Integer> started = children();
      started.removeAll(before);
      int guardPid = started.iterator().next();
      assertTrue(guard.terminate());
      await().atMost(PATIENCE).until(() -> !first.isAlive()); // the guard has looked
      Signal.send("STOP", guardPid);
      Signal.send("USR1", root.pid());
      ProcessIdentity last = written(child);
      assertEquals(0, session.waitFor());
      Signal.send("CONT", guardPid);
      boolean unused = guard.kill();
      assertTrue(guard.reap());
      assertFalse(last.isAlive(), "a process of the session is left");
    } finally {
      session.destroyForcibly();
    }
  }

  private static ProcessIdentity written(Path file) throws IOException {
    await().atMost(PATIENCE).until(() -> Files.exists(file));
    return ProcessIdentity.of(Long.parseLong(Files.readString(file).strip())).orElseThrow();
  }

  private static Set<Integer> children() {
    return new HashSet<>(ProcFs.descendants(ProcessHandle.current().pid()));
  }

  /** Returns the message of a start without any time; empty if the guard was quicker. */
  private String late(ProcessIdentity root, PidDescriptor held) throws IOException {
    Guard guard;
    try {
      guard = Guard.start(root, held, true, directory.resolve("entry"), Duration.ZERO);
    } catch (OperationTimedOutException e) {
      return String.valueOf(e.getMessage());
    }
    guard.detach();
    boolean unused = guard.reap();
    return "";
  }
}
