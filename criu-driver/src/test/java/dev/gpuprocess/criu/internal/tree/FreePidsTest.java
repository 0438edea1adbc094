package dev.gpuprocess.criu.internal.tree;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.BufferedReader;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class FreePidsTest {

  /** A dump that may wait no longer looks once. */
  @Test
  void waitEndsWithTheDump() throws Exception {
    // A shell could reap its child.
    String leavesZombie =
        "my $child = fork // die; exit 0 if !$child; $| = 1; print \"$child\\n\"; sleep 600";
    Process parent = new ProcessBuilder("perl", "-e", leavesZombie).start();
    try (BufferedReader said = parent.inputReader()) {
      int pid = Integer.parseInt(said.readLine());
      assertTrue(
          Polling.until(
              Duration.ofMinutes(3), () -> ProcFs.stat(pid).filter(ProcStat::isDead).isPresent()));
      ProcessIdentity zombie =
          new ProcessIdentity(pid, ProcFs.stat(pid).orElseThrow().startTicks());
      AtomicInteger looks = new AtomicInteger();
      FreePids.await(List.of(zombie), () -> looks.incrementAndGet() > 0);
      assertEquals(1, looks.get());
    } finally {
      parent.destroyForcibly();
    }
  }
}
