package dev.gpuprocess.internal.linux;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ProcessTreeTest {

  /** A duration that no other process sleeps, by which orphaned sleepers are found. */
  private final String seconds = "600." + System.nanoTime();

  @AfterEach
  void endSleepers() {
    sleepers().forEach(Processes::kill);
  }

  private List<ProcessIdentity> sleepers() {
    return ProcFs.processes().stream()
        .filter(pid -> ProcFs.commandLine(pid).equals(List.of("sleep", seconds)))
        .flatMap(pid -> ProcessIdentity.of(pid).stream())
        .filter(ProcessIdentity::isAlive)
        .toList();
  }

  private static void await(BooleanSupplier condition) {
    try (Polling patience = new Polling(Duration.ofSeconds(20))) {
      while (!condition.getAsBoolean()) {
        assertTrue(patience.pause(), "it did not happen in time");
      }
    }
  }

  /** Only reads, also where the check fails: a JVM never signals itself. */
  @Test
  void aTreeWithThisJvmIsRefused() {
    ProcessIdentity self = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
    FixAndRetryException e =
        assertReason(
            FixAndRetryException.class,
            FixAndRetryException.Reason.LAUNCH_FAILED,
            () -> ProcessTree.kill(List.of(self)));
    assertTrue(e.getMessage().contains("end it from outside"), e.getMessage());
  }

  @Test
  void killsProcessesThatStartDuringTheKill() throws IOException, InterruptedException {
    String forking = "for ((i = 0; i < 3000; i++)); do sleep %s & done; wait".formatted(seconds);
    Process shell = new ProcessBuilder("bash", "-c", forking).start();
    ProcessIdentity root = ProcessIdentity.of(shell.pid()).orElseThrow();
    await(() -> sleepers().size() >= 20);

    Set<ProcessIdentity> killed = ProcessTree.kill(List.of(root));

    assertTrue(killed.contains(root));
    assertEquals(128 + 9, shell.waitFor());
    await(() -> killed.stream().noneMatch(ProcessIdentity::isAlive));
    assertEquals(List.of(), sleepers());
  }

  @Test
  void killsStoppedProcesses() throws IOException, InterruptedException {
    Process shell =
        new ProcessBuilder("bash", "-c", "sleep %s & kill -STOP $$".formatted(seconds)).start();
    ProcessIdentity root = ProcessIdentity.of(shell.pid()).orElseThrow();
    await(() -> Processes.stat(root).orElseThrow().isStopped() && sleepers().size() == 1);

    Set<ProcessIdentity> killed = ProcessTree.kill(List.of(root));

    assertEquals(2, killed.size());
    assertEquals(128 + 9, shell.waitFor());
    await(() -> sleepers().isEmpty());
  }

  @Test
  void killsOrphanedDescendants() throws IOException, InterruptedException {
    String starting = "sleep %s & read line".formatted(seconds);
    Process shell = new ProcessBuilder("bash", "-c", starting).start();
    ProcessIdentity root = ProcessIdentity.of(shell.pid()).orElseThrow();
    await(() -> sleepers().size() == 1);
    ProcessIdentity child = sleepers().get(0);
    shell.outputWriter().close();
    assertEquals(1, shell.waitFor());

    assertTrue(ProcessTree.end(List.of(root, child), Duration.ofSeconds(20)));

    assertEquals(List.of(), sleepers());
  }

  @Test
  void doesNotKillAnotherProcessWithTheSamePid() throws IOException {
    Process other = new ProcessBuilder("sleep", seconds).start();
    ProcessIdentity living = ProcessIdentity.of(other.pid()).orElseThrow();

    Set<ProcessIdentity> unused =
        ProcessTree.kill(List.of(new ProcessIdentity(living.pid(), living.startTicks() - 1)));

    assertTrue(living.isAlive());
    assertTrue(!Processes.stat(living).orElseThrow().isStopped());
  }
}
