package dev.gpuprocess.examples.comesback;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.examples.comesback.Outcome.Verdict;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.fixtures.AttributeProcess;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Attribute;
import dev.gpuprocess.options.DumpOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Makes the process of a case, dumps it, restores it, and judges what it reports from inside. */
final class CaseRunner implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final long GHOST_LIMIT = 64L << 20;

  private static final boolean ROOT = System.getProperty("user.name").equals("root");

  private final SimulatedDriver machine = SimulatedDriver.builder().create();
  private final GpuCheckpoints checkpoints =
      GpuCheckpoints.builder()
          .cuda(machine.directory())
          .stateDirectory(machine.stateDirectory())
          .build();
  private final Restorer restorer = new Restorer(checkpoints, machine);

  /** Plays a case. */
  Outcome play(Combination one) throws IOException, InterruptedException {
    try (Scratch scratch = Scratch.create()) {
      // Some of the processes belong to another user.
      Files.setPosixFilePermissions(
          scratch.resolve(""), PosixFilePermissions.fromString("rwxr-xr-x"));
      Path files = Files.createDirectory(scratch.resolve("files"));
      try (AttributeProcess process = AttributeProcess.start(machine, files, one.attributes())) {
        return process
            .impossible()
            .map(why -> new Outcome(Verdict.NOT_HERE, why))
            .orElseGet(() -> judge(one, process, scratch));
      } finally {
        restorer.forget();
      }
    }
  }

  private Outcome judge(Combination one, AttributeProcess process, Scratch scratch) {
    long pid = process.pid();
    List<String> before = process.report(pid).orElse(List.of());
    if (before.isEmpty()) {
      return new Outcome(Verdict.NOT_HERE, "the process does not report");
    }
    Path image = scratch.resolve("image");
    try {
      dump(one, checkpoints.process(pid), image);
    } catch (GpuCheckpointException e) {
      return afterRefusal(process, pid, before, String.valueOf(e.getMessage()));
    } catch (RuntimeException e) {
      return new Outcome(Verdict.LOST, "untyped exception of the dump: " + e);
    }
    if (ROOT && one.dump() == Combination.Dump.SNAPSHOT) {
      // What changes now must not be seen after the restore.
      process.report(pid);
      kill(pid);
    }
    if (one.closesTerminal()) {
      process.closeTerminal();
    }
    return restored(one, process, image, scratch, before);
  }

  private static void dump(Combination one, RunningProcess process, Path image) {
    DumpOptions options =
        DumpOptions.builder()
            .allowLoss(one.permissive() ? Attribute.values() : new Attribute[0])
            .criu(
                criu ->
                    criu.fileLocks(one.permissive())
                        .tcpEstablished(one.permissive())
                        .linkRemap(one.permissive())
                        .ghostLimit(one.permissive() ? GHOST_LIMIT : 1 << 20))
            .build();
    if (!ROOT) {
      // For another user the simulated devices have a mapping that a check refuses until it is
      // gone.
      try (CheckpointedProcess suspended = process.suspend()) {
        suspended.dump(image, options);
      }
    } else if (one.dump() == Combination.Dump.SNAPSHOT) {
      process.snapshot(image, options);
    } else {
      process.dump(image, options);
    }
  }

  private Outcome afterRefusal(
      AttributeProcess process, long pid, List<String> before, String message) {
    try {
      if (!(checkpoints.inspect(pid) instanceof RunningProcess)) {
        return new Outcome(Verdict.LOST, "not running after the refusal: " + message);
      }
    } catch (GpuCheckpointException e) {
      return new Outcome(Verdict.LOST, "%s after the refusal: %s".formatted(e, message));
    }
    List<String> after = process.report(pid).orElse(List.of());
    return after.isEmpty()
        ? new Outcome(Verdict.LOST, "does not answer after the refusal: " + message)
        : after.equals(before)
            ? new Outcome(Verdict.REFUSED, message)
            : new Outcome(
                Verdict.CHANGED,
                Difference.between(before, after) + " after the refusal: " + message);
  }

  private Outcome restored(
      Combination one, AttributeProcess process, Path image, Scratch scratch, List<String> before) {
    long pid;
    try {
      pid = restorer.restore(one.way(), image, Files.createDirectory(scratch.resolve("restore")));
    } catch (GpuCheckpointException | Restorer.FailedException e) {
      return new Outcome(Verdict.LOST, String.valueOf(e.getMessage()));
    } catch (IOException e) {
      return new Outcome(Verdict.LOST, e.toString());
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } catch (RuntimeException e) {
      return new Outcome(Verdict.LOST, "untyped exception of the restore: " + e);
    }
    try {
      List<String> after = process.report(pid).orElse(List.of());
      if (after.isEmpty()) {
        return new Outcome(Verdict.LOST, "restored, and does not answer");
      }
      Difference difference = Difference.between(before, after);
      if (one.way() == Combination.Way.LAUNCH) {
        // Set by the parent of the process, which is this JVM now; launch() logs it.
        difference = difference.without("process parent-death ");
      }
      if (difference.isEmpty()) {
        return new Outcome(Verdict.CAME_BACK, "");
      }
      List<String> named = checkpoints.open(image).manifest().lost();
      return new Outcome(
          difference.isCoveredBy(named) ? Verdict.ALLOWED_LOSS : Verdict.CHANGED,
          "%s; named: %s".formatted(difference, named));
    } finally {
      kill(pid);
    }
  }

  /** Ends a process that this run made, with its descendants. */
  private static void kill(long pid) {
    List<ProcessHandle> tree = new ArrayList<>();
    ProcessHandle.of(pid)
        .ifPresent(
            root -> {
              tree.add(root);
              root.descendants().forEach(tree::add);
            });
    tree.forEach(ProcessHandle::destroyForcibly);
    boolean unused = Await.until(PATIENCE, () -> tree.stream().noneMatch(CaseRunner::isRunning));
  }

  private static boolean isRunning(ProcessHandle process) {
    try {
      String state = Files.readString(Path.of("/proc", Long.toString(process.pid()), "stat"));
      return state.charAt(state.lastIndexOf(')') + 2) != 'Z' && process.isAlive();
    } catch (IOException e) {
      return false;
    }
  }

  @Override
  public void close() {
    restorer.close();
    machine.close();
  }
}
