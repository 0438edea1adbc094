package dev.gpuprocess.examples.verification;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.cuda.Gpu;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.Signal;
import dev.gpuprocess.fixtures.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.report.StepListener;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;

/** Checks of processes that are stopped or busy, or that die. */
final class StuckChecks {

  private static final long MIB = 1L << 20;
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private StuckChecks() {}

  /** A raw call hangs while the process is stopped; the library refuses at once. */
  static Outcome stopped(Machine machine) {
    try (Counter counter = machine.on(Counter.launch()).start()) {
      RunningProcess running = machine.checkpoints().process(counter.pid());
      signal(counter, "STOP");
      await(() -> ProcFs.stat(counter.pid()).map(ProcStat::isStopped).orElse(false));
      CompletableFuture<?> raw =
          CompletableFuture.supplyAsync(
              () -> machine.checkpoints().cuda().lock((int) counter.pid(), 100));
      boolean rawHangs = !endsWithin(raw, Duration.ofSeconds(2));
      long began = System.nanoTime();
      String refusal = message(FixAndRetryException.Reason.PROCESS_STOPPED, running::lock);
      double ms = (System.nanoTime() - began) / 1e6;
      signal(counter, "CONT");
      boolean rawEnds = endsWithin(raw, Duration.ofSeconds(10));
      GpuProcess found = machine.checkpoints().inspect(counter.pid());
      if (found instanceof LockedProcess locked) {
        locked.unlock();
      }
      String numbers =
          "refused in %s ms: %s%na raw lock with timeout 100 ms hung 2 s: %s, ended after SIGCONT: %s; then %s"
              .formatted(
                  Math.round(ms * 10) / 10.0, refusal, rawHangs, rawEnds, counter.increment());
      return Outcome.of("stopped target", rawHangs && rawEnds && !refusal.isEmpty(), numbers);
    }
  }

  /** The lock times out, and the kernel and the process continue. */
  static Outcome busy(Machine machine) {
    try (Counter counter = machine.on(Counter.launch()).start()) {
      RunningProcess running = machine.checkpoints().process(counter.pid());
      counter.spin(Duration.ofSeconds(3));
      long began = System.nanoTime();
      String refusal =
          message(
              RetryLaterException.Reason.LOCK_TIMEOUT, () -> running.lock(Duration.ofMillis(500)));
      double ms = (System.nanoTime() - began) / 1e6;
      ProcessState after = machine.checkpoints().inspect(counter.pid()).state();
      int next = counter.increment();
      running.suspend().resume();
      return Outcome.of(
          "busy GPU",
          after == ProcessState.RUNNING && next == 101 && !refusal.isEmpty(),
          "lock of 500 ms gave up after %s ms, process %s, counts on to %s, suspends later"
              .formatted(Math.round(ms), after, next));
    }
  }

  /** The process dies during its checkpoint: a typed exception, and its GPU memory is free. */
  static Outcome killed(Machine machine) {
    long before = free(machine);
    Pattern pattern = machine.on(Pattern.launch(machine.isSimulated() ? 512 : 8192)).start();
    GpuCheckpoints killing =
        machine.checkpoints().toBuilder()
            .listener(
                new StepListener() {
                  @Override
                  public void started(String name, int pid) {
                    if (name.equals("checkpoint")) {
                      new Thread(() -> killWhenItGrows(pattern)).start();
                    }
                  }
                })
            .build();
    String refusal =
        message(
            ProcessUnfitException.Reason.NO_SUCH_PROCESS,
            () -> killing.process(pattern.pid()).suspend());
    await(() -> before - free(machine) < 64 * MIB);
    long left =
        machine.checkpoints().recover().stream()
            .filter(entry -> entry.process().pid() == pattern.pid())
            .count();
    return Outcome.of(
        "killed in checkpoint",
        !refusal.isEmpty() && left == 0,
        "%s; the GPU is free of it, %s entries of it in the journal".formatted(refusal, left));
  }

  private static void killWhenItGrows(Pattern pattern) {
    long before = ProcFs.anonymousBytes(pattern.pid());
    await(() -> ProcFs.anonymousBytes(pattern.pid()) > before + 128 * MIB);
    pattern.close();
  }

  private static long free(Machine machine) {
    return machine.checkpoints().gpus().gpus().orElse(List.of()).stream()
        .mapToLong(Gpu::freeBytes)
        .sum();
  }

  /** Runs the body and returns the message of the expected exception; empty if none was thrown. */
  static String message(GpuCheckpointException.Reason expected, Runnable body) {
    try {
      body.run();
      return "";
    } catch (GpuCheckpointException e) {
      if (e.reason() == expected) {
        return String.valueOf(e.getMessage());
      }
      throw e;
    }
  }

  static void await(BooleanSupplier condition) {
    if (!Await.until(PATIENCE, condition)) {
      throw new IllegalStateException("the process did not change within " + PATIENCE);
    }
  }

  private static boolean endsWithin(CompletableFuture<?> call, Duration time) {
    try {
      call.get(time.toMillis(), TimeUnit.MILLISECONDS);
      return true;
    } catch (TimeoutException e) {
      return false;
    } catch (InterruptedException | ExecutionException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void signal(Workload workload, String name) {
    if (!workload.isAlive()) {
      throw new IllegalStateException("the workload has ended");
    }
    Signal.send(name, workload.pid());
  }
}
