package dev.gpuprocess;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationInProgressException;
import dev.gpuprocess.fixtures.Pattern;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.cuda.LibCuda;
import dev.gpuprocess.internal.cuda.LibNvml;
import dev.gpuprocess.options.Timeouts;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Processes that try to hold the controller that suspends them, or to make it write to files. */
@RequiresRoot("traces other processes")
@Tag("slow")
class HostileTargetsTest {

  private static final int MIB = 4;
  private static final String WHOLE = "ok %s bytes".formatted((long) MIB << 20);

  /** What a verb takes at most, many times over. */
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  /** The tricks of hostile.main.c. */
  private static final List<String> TRICKS =
      List.of(
          "chain",
          "buckets",
          "dynamic",
          "symbols",
          "userfault",
          "stack",
          "environment",
          "mappings",
          "lease");

  @TempDir Path state;

  private final List<String> skipped = new ArrayList<>();
  private final List<String> late = new ArrayList<>();
  private final List<String> held = new ArrayList<>();
  private final List<String> wrong = new ArrayList<>();
  private long written;

  /** All at the same time, and a process beside them that goes on. */
  @Test
  void verbsOnHostileProcesses_end_andOthersGoOn() throws Exception {
    ExecutorService verbs = Executors.newCachedThreadPool();
    Map<String, Pattern> processes = new LinkedHashMap<>();
    try (SimulatedDriver machine = SimulatedDriver.create();
        Pattern neighbour = Pattern.start(machine, MIB)) {
      try {
        GpuCheckpoints checkpoints = checkpoints(machine);
        for (String trick : TRICKS) {
          Pattern process = Pattern.launchHostile(MIB, trick).on(machine).notOurChild().start();
          processes.put(trick, process);
          if (!process.trick().equals("played")) {
            skipped.add(trick + " (" + process.trick() + ")");
          }
        }
        skipped.forEach(each -> processes.remove(each.split(" ", 2)[0]).close());
        Map<String, Future<Optional<Exception>>> under = new LinkedHashMap<>();
        processes.forEach(
            (trick, process) ->
                under.put(trick, verbs.submit(() -> cycle(checkpoints, process.pid()))));
        assertEquals(Optional.empty(), cycle(checkpoints, neighbour.pid()));
        for (Map.Entry<String, Future<Optional<Exception>>> each : under.entrySet()) {
          end(each.getKey(), processes.get(each.getKey()), each.getValue());
        }
        for (Map.Entry<String, Pattern> each : processes.entrySet()) {
          Pattern process = each.getValue();
          assertEquals(
              ProcessKind.RUNNING, kind(checkpoints, process), each.getKey() + ": its state");
          assertEquals(WHOLE, process.verify(), each.getKey());
          written += process.writtenFiles();
          // the lock is free: a second verb is not refused for the first
          Future<Optional<Exception>> again = verbs.submit(() -> cycle(checkpoints, process.pid()));
          end(each.getKey() + " again", process, again);
        }
        assertEquals(Optional.empty(), cycle(checkpoints, neighbour.pid()));
        assertEquals(WHOLE, neighbour.verify());
      } finally {
        processes.values().forEach(Pattern::close);
      }
    } finally {
      verbs.shutdownNow();
    }
    processes.forEach((trick, process) -> requireNoThread(trick, process.pid()));
    Figures.add(
        "hostile targets: %s cases, %s, %s held, %s written%s"
            .formatted(
                processes.size(),
                late.isEmpty() ? "all within their deadline" : late + " late",
                held.size(),
                written,
                skipped.isEmpty() ? "" : ", skipped: " + String.join(", ", skipped)));
    assertEquals(List.of(), late);
    assertEquals(List.of(), held);
    assertEquals(List.of(), wrong);
    assertEquals(0, written);
    assertTrue(processes.size() >= 6, () -> "too few tricks are played here: " + skipped);
  }

  private GpuCheckpoints checkpoints(SimulatedDriver machine) {
    return GpuCheckpoints.builder()
        .cuda(LibCuda.in(machine.directory()), LibNvml.in(machine.directory()))
        .stateDirectory(state)
        .timeouts(
            Timeouts.builder().lock(Duration.ofSeconds(30)).call(Duration.ofSeconds(30)).build())
        .build();
  }

  /** Suspends a process and resumes it; returns why it was refused. */
  private static Optional<Exception> cycle(GpuCheckpoints checkpoints, long pid) {
    try {
      RunningProcess unused = checkpoints.process(pid).suspend().resume();
      return Optional.empty();
    } catch (GpuCheckpointException e) {
      return Optional.of(e);
    }
  }

  /** Waits for a verb; a refusal must name its process. */
  private void end(String trick, Pattern process, Future<Optional<Exception>> verb)
      throws InterruptedException {
    try {
      Optional<Exception> refused = verb.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
      if (refused.isPresent()) {
        String message = String.valueOf(refused.get().getMessage());
        if (refused.get() instanceof OperationInProgressException) {
          held.add(trick + ": " + message);
        }
        if (!message.contains("process " + process.pid())) {
          wrong.add(trick + ": " + message);
        }
      }
    } catch (TimeoutException e) {
      late.add(trick);
    } catch (ExecutionException e) {
      wrong.add(trick + ": " + e.getCause());
    }
  }

  private enum ProcessKind {
    RUNNING,
    OTHER
  }

  private static ProcessKind kind(GpuCheckpoints checkpoints, Pattern process) {
    return checkpoints.inspect(process.pid()) instanceof RunningProcess
        ? ProcessKind.RUNNING
        : ProcessKind.OTHER;
  }

  /** The page that a thread waits for is gone with the process. */
  private void requireNoThread(String trick, long pid) {
    String name = "gpuprocess reads process " + pid;
    Awaitility.await(trick)
        .atMost(PATIENCE)
        .until(
            () ->
                Thread.getAllStackTraces().keySet().stream()
                    .noneMatch(thread -> thread.getName().equals(name)));
  }
}
