package dev.gpuprocess.slot;

import dev.gpuprocess.CheckpointedProcess;
import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.ImageStore;
import dev.gpuprocess.LockedProcess;
import dev.gpuprocess.ProcessImage;
import dev.gpuprocess.RunningProcess;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.NoSuchProcessException;
import dev.gpuprocess.options.Cancellation;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.options.ResumeOptions;
import dev.gpuprocess.options.SuspendOptions;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.slot.SlotProcess.Place;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The verbs that a slot uses. Each reads the process again, since other controllers may have moved
 * it. Immutable.
 */
record SlotMoves(GpuCheckpoints checkpoints) {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * What a process holds on GPUs.
   *
   * @param gpus empty if that is not known
   */
  record Usage(Set<GpuUuid> gpus, long bytes) {
    static Usage of(GpuProcess process) {
      Map<GpuUuid, Long> held =
          process.members().stream()
              .flatMap(member -> member.gpuBytes().entrySet().stream())
              .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue, Long::sum));
      return new Usage(held.keySet(), held.values().stream().mapToLong(Long::longValue).sum());
    }
  }

  private Timeouts timeouts() {
    return checkpoints.timeouts();
  }

  /** Takes the process that has a pid. One that a controller left locked is unlocked. */
  GpuProcess look(long pid) {
    return unlocked(checkpoints.inspect(pid));
  }

  private static GpuProcess unlocked(GpuProcess found) {
    return found instanceof LockedProcess locked ? locked.unlock() : found;
  }

  /**
   * Reads a process again.
   *
   * @throws NoSuchProcessException also when another process has the pid
   */
  GpuProcess look(ProcessIdentity process) {
    GpuProcess found = checkpoints.inspect(process.pid());
    if (!found.identity().equals(process)) {
      throw replaced(process);
    }
    return unlocked(found);
  }

  /** Lets another process run again that was suspended by its pid. */
  static RuntimeException putBack(CheckpointedProcess other, ProcessIdentity process) {
    try {
      RunningProcess unused = other.resume();
    } catch (GpuCheckpointException e) {
      return new FixAndRetryException(
          FixAndRetryException.Reason.WRONG_STATE,
          "process %s has ended, and another process, which has its pid, was suspended and cannot be resumed: resume process %s (%s)"
              .formatted(process.pid(), other.pid(), e.getMessage()),
          e.failure(),
          e);
    }
    return replaced(process);
  }

  private static NoSuchProcessException replaced(ProcessIdentity process) {
    return new NoSuchProcessException(
        "process %s has ended, and another process has its pid".formatted(process.pid()),
        Failure.of("inspect", process.pid()));
  }

  /**
   * Returns where the memory of a process is.
   *
   * @throws FixAndRetryException with reason WRONG_STATE when the driver cannot bring the process
   *     back
   */
  static Place place(GpuProcess process) {
    if (process instanceof CheckpointedProcess) {
      return Place.HOST_MEMORY;
    }
    if (process instanceof RunningProcess) {
      return Place.GPU;
    }
    throw wrongState(process, "enqueue", "cannot take turns: end it, or replace it by its image");
  }

  private static FixAndRetryException wrongState(GpuProcess process, String verb, String words) {
    ProcessState state = process.state();
    return new FixAndRetryException(
        FixAndRetryException.Reason.WRONG_STATE,
        process + " " + words,
        new Failure(verb, process.pid(), state, state, Duration.ZERO, null, null));
  }

  CheckpointedProcess suspend(ProcessIdentity process, Cancellation by) {
    GpuProcess found = look(process);
    CheckpointedProcess suspended =
        checkpoints.suspend(
            found.pid(),
            SuspendOptions.builder().deadline(timeouts().transfer()).cancellation(by).build());
    if (!suspended.identity().equals(process)) {
      // The suspend waited for a verb that has dumped and restored it.
      throw putBack(suspended, process);
    }
    return suspended;
  }

  RunningProcess resume(ProcessIdentity process, Cancellation by) {
    GpuProcess found = look(process);
    if (found instanceof RunningProcess running) {
      return running;
    }
    if (found instanceof CheckpointedProcess suspended) {
      return suspended.resume(
          ResumeOptions.builder().waitForMemory(timeouts().memory()).cancellation(by).build());
    }
    throw wrongState(found, "resume", "cannot run again: end it, or replace it by its image");
  }

  /**
   * Writes a suspended process to disk.
   *
   * @param named is handed the directory of the image before the process is touched
   */
  void dump(ProcessIdentity process, ImageStore store, Consumer<Path> named, Cancellation by) {
    GpuProcess found = look(process);
    if (!(found instanceof CheckpointedProcess suspended)) {
      throw wrongState(found, "dump", "is not suspended any more, so it is not dumped");
    }
    ProcessImage unused =
        store.dump(suspended, DumpOptions.builder().cancellation(by).build(), named);
  }

  CheckpointedProcess restore(Path image, Cancellation by) {
    return checkpoints.open(image).restore(RestoreOptions.builder().cancellation(by).build());
  }

  /**
   * Returns whether an image may hold a process that does not exist any more: the image is
   * complete, or cannot be read now.
   */
  boolean mayHold(Path image) {
    try {
      return checkpoints.open(image).directory().equals(image);
    } catch (ImageException e) {
      if (e.reason() != ImageException.Reason.MISSING) {
        LOG.warn("{} cannot be opened now: {}", image, e.getMessage());
      }
      return e.reason() != ImageException.Reason.MISSING;
    }
  }
}
