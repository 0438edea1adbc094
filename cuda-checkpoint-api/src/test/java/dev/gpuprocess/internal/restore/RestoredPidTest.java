package dev.gpuprocess.internal.restore;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RestoreOptions;
import java.io.BufferedReader;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** A restore that waits for its pid, which a zombie has. */
class RestoredPidTest {

  private static final Path IMAGE = Path.of("/images/one");

  @Test
  void waitEndsWithTheRestore() throws Exception {
    // A shell could reap its child.
    String leavesZombie =
        "my $child = fork // die; exit 0 if !$child; $| = 1; print \"$child\\n\"; sleep 600";
    Process parent = new ProcessBuilder("perl", "-e", leavesZombie).start();
    try (BufferedReader said = parent.inputReader()) {
      int zombie = Integer.parseInt(said.readLine());
      assertTrue(
          Polling.until(
              Duration.ofMinutes(3),
              () -> ProcFs.stat(zombie).filter(ProcStat::isDead).isPresent()));
      ManifestData manifest = mock(ManifestData.class);
      when(manifest.pid()).thenReturn(zombie);
      RestoredPid pid = new RestoredPid(mock(EngineContext.class), manifest, false);

      Cancellation cancelled = new Cancellation();
      cancelled.cancel();
      RestoreOptions ended = RestoreOptions.builder().cancellation(cancelled).build();
      String message =
          assertThrows(OperationCancelledException.class, () -> pid.awaitFree(IMAGE, ended))
              .getMessage();
      assertTrue(String.valueOf(message).contains("while it waited for pid " + zombie), message);

      RestoreOptions late = RestoreOptions.builder().deadline(Duration.ofMillis(20)).build();
      assertThrows(OperationTimedOutException.class, () -> pid.awaitFree(IMAGE, late));
    } finally {
      parent.destroyForcibly();
    }
  }
}
