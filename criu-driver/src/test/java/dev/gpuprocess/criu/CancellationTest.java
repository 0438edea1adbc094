package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Dumps and restores that another thread cancels while the real CRIU works. */
@Tag("jdk")
@NullUnmarked
class CancellationTest {

  private static final int LARGE = 512;

  @TempDir Path directory;

  private final Cancellation cancellation = new Cancellation();
  private DumpDirectories site;

  @BeforeEach
  void makeSite() {
    RealCriu.assume();
    site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver());
  }

  @Test
  void dump_cancelledWhileItReadsTheMemory_letsTheProcessRun() {
    try (Workload counter = Workload.counter(directory, LARGE)) {
      CompletableFuture<Void> cancelled =
          Canceller.when(
              cancellation,
              () -> Processes.stat(counter.identity()).filter(ProcStat::isStopped).isPresent(),
              "CRIU to stop the process");
      OperationCancelledException e =
          assertThrows(
              OperationCancelledException.class,
              () ->
                  site.dump(
                      counter.identity(),
                      DumpDirectories.dump().cancellation(cancellation).build(),
                      new DumpListener() {
                        @Override
                        public void postDump() {
                          cancelled.join(); // the canceller may be slower than CRIU
                        }
                      }));
      assertEquals(Fate.RUNNING_AGAIN, e.failure().fate(), e.getMessage());
      assertTrue(e.getMessage().contains("was cancelled"), e.getMessage());
      counter.assertGoesOn();
    }
  }

  /** With truncated pages CRIU would never end. */
  @Test
  void restore_cancelledWhileItBuilds_leavesNothing() throws IOException {
    int pid;
    try (Workload counter = Workload.counter(directory, 4)) {
      pid = counter.pid();
      site.dump(counter.identity(), DumpDirectories.dump().build());
    }
    for (Path pages : site.images("pages-")) {
      RestoreTraps.cut(pages);
    }
    RestoreOptions options =
        DumpDirectories.shellJob().criu(c -> c.logLevel(1)).cancellation(cancellation).build();
    CompletableFuture<Void> cancelled =
        Canceller.when(
            cancellation, () -> ProcessIdentity.of(pid).isPresent(), "a half-restored process");
    OperationCancelledException e =
        assertThrows(OperationCancelledException.class, () -> site.restore(pid, options));
    cancelled.join();
    assertEquals(Fate.HALF_RESTORED_REMOVED, e.failure().fate(), e.getMessage());
    assertFalse(ProcessIdentity.of(pid).filter(ProcessIdentity::isAlive).isPresent());
  }

  @Test
  void dump_cancelledBeforeItBegins_touchesNothing() {
    cancellation.cancel();
    try (Workload counter = Workload.counter(directory)) {
      OperationCancelledException e =
          assertThrows(
              OperationCancelledException.class,
              () ->
                  site.dump(
                      counter.identity(),
                      DumpDirectories.dump().cancellation(cancellation).build()));
      assertTrue(
          e.getMessage()
              .endsWith(
                  " was cancelled before it began: CRIU was not started, and nothing was touched"),
          e.getMessage());
      assertEquals(Fate.RUNNING_AGAIN, e.failure().fate());
      counter.assertGoesOn();
    }
  }
}
