package dev.gpuprocess.criu.internal.dump;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.RealCriu;
import dev.gpuprocess.criu.RpcCriuDriver;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.Processes;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.proc.Signals;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A dump is aborted while the process executes CRIU's code: a process whose tracer dies then dies
 * as well.
 */
@OutsideUse("A1")
@NullUnmarked
class KillDecisionTest {

  private static final int MEBIBYTES = 4;
  private static final Duration SHORT = Duration.ofSeconds(3);
  private static final Duration LONG = Duration.ofSeconds(40);

  /** The process is never to die of a dump here. */
  private static final DumpListener VETO =
      new DumpListener() {
        @Override
        public void postDump() {
          throw new IllegalStateException("the process is to live");
        }
      };

  @TempDir Path directory;

  private Workload process;
  private GpuCheckpointException thrown;
  private int dumps;

  @BeforeEach
  void start() {
    RealCriu.assume();
    process = Workload.counter(directory, MEBIBYTES);
  }

  @AfterEach
  void end() {
    if (process != null) {
      process.close();
    }
  }

  private void dump(DumpOptions options) {
    try {
      Path place = Files.createDirectory(directory.resolve("dump" + dumps++));
      new RpcCriuDriver()
          .dump(
              new DumpRequest(
                  process.identity(),
                  Files.createDirectory(place.resolve("images")),
                  Files.createDirectory(place.resolve("work")),
                  options),
              VETO);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    } catch (GpuCheckpointException e) {
      thrown = e;
    }
  }

  /** Dumps again and again: on a busy machine the moment may be missed many times. */
  private static void until(BooleanSupplier isMet) {
    while (!isMet.getAsBoolean()) {}
  }

  /** Dumps until CRIU could be stopped at such a moment. */
  private void dumpWithCriuHeld(DumpOptions options, Consumer<ProcessIdentity> held) {
    until(() -> CriuHeldInCode.during(process.pid(), () -> dump(options), held));
  }

  private void assertRunsOn() {
    assertEquals(Fate.RUNNING_AGAIN, thrown.failure().fate(), thrown.getMessage());
    process.assertGoesOn();
  }

  @Test
  void aDeadlineThatPassesThereDoesNotEndTheProcess() {
    dumpWithCriuHeld(DumpOptions.builder().deadline(SHORT).build(), criu -> {});
    assertInstanceOf(OperationTimedOutException.class, thrown, thrown.getMessage());
    assertRunsOn();
  }

  @Test
  void aCancellationThereDoesNotEndTheProcess() {
    AtomicReference<Cancellation> cancellation = new AtomicReference<>();
    until(
        () -> {
          cancellation.set(new Cancellation());
          return CriuHeldInCode.during(
              process.pid(),
              () ->
                  dump(
                      DumpOptions.builder()
                          .deadline(LONG)
                          .cancellation(cancellation.get())
                          .build()),
              criu -> cancellation.get().cancel());
        });
    assertInstanceOf(OperationCancelledException.class, thrown, thrown.getMessage());
    assertRunsOn();
  }

  /** The process cannot execute the injected code: then CRIU is not killed. */
  @Test
  void withoutSuchAMomentCriuIsLetGoOn() {
    AtomicBoolean without = new AtomicBoolean();
    until(
        () -> {
          dumpWithCriuHeld(
              DumpOptions.builder().deadline(LONG).build(),
              criu -> without.set(isWithoutMoment(criu)));
          return without.get();
        });
    assertInstanceOf(CriuException.class, thrown, thrown.getMessage());
    assertRunsOn();
  }

  /** On a busy machine the code may end late; CRIU must continue then. */
  private boolean isWithoutMoment(ProcessIdentity criu) {
    if (!new KillDecision(process.pid(), Duration.ZERO).awaitMoment(criu)) {
      return true;
    }
    try {
      Processes.signal(criu, Signals.SIGCONT);
      return false;
    } catch (NativeCallException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void aCriuThatTouchesNobodyIsStoppedAtOnce() {
    try (Workload bystander = Workload.counter(directory, 1)) {
      KillDecision moment = new KillDecision(process.pid(), Duration.ofSeconds(10));
      assertTrue(moment.awaitMoment(bystander.identity()));
      Workload.await(
          () -> Processes.stat(bystander.identity()).filter(ProcStat::isStopped).isPresent(),
          "it to stop");
    }
  }

  /** CRIU reports only "Unexpected 12 task interruption", or "12 was stopped by 19". */
  @OutsideUse("B6")
  @Test
  void aSignalThatCriuDoesNotStandIsNamed() {
    until(this::isSignalNamed);
    assertTrue(thrown.getMessage().contains("during a dump"), thrown.getMessage());
  }

  private boolean isSignalNamed() {
    if (!process.identity().isAlive()) {
      // It can die of that.
      process = Workload.counter(directory, MEBIBYTES);
    }
    ProcessIdentity signalled = process.identity();
    CriuHeldInCode.during(
        signalled.pid(),
        () -> dump(DumpOptions.builder().deadline(LONG).build()),
        criu -> {
          try {
            Processes.signal(signalled, Signals.SIGSTOP);
            Processes.signal(criu, Signals.SIGCONT);
          } catch (NativeCallException e) {
            throw new IllegalStateException(e);
          }
        });
    try {
      Processes.signal(signalled, Signals.SIGCONT);
    } catch (NativeCallException e) {
      throw new IllegalStateException(e);
    }
    return thrown.getMessage().contains("SIGSTOP or SIGCONT");
  }
}
