package dev.gpuprocess.internal.engine;

import dev.gpuprocess.cuda.GpuReading;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.memory.DividedCopy;
import dev.gpuprocess.internal.memory.DriverHook;
import dev.gpuprocess.internal.memory.HeldFiles;
import dev.gpuprocess.internal.pool.HostMemoryPool;
import dev.gpuprocess.internal.pool.PreparedMemory;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.state.GpuUsage;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The host memory for the save areas of all members: enough for all of them, or none, and then the
 * driver maps its own. The processes keep the memory when this is closed.
 */
final class SaveMemory implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * The size of the memory that the driver saves in addition to the GPU memory that NVML shows: 9.4
   * MiB on an H100 with driver 580, independent of the process.
   */
  private static final long BESIDE = 64L << 20;

  private static final String FILES = "GpuCheckpoints.Builder.hostMemory";

  private final EngineContext context;
  private final Map<TrackedProcess, PreparedMemory> prepared = new HashMap<>();
  private final HostMemoryPool.Copies copies;

  /** Why no memory could be prepared, or empty. */
  private String missing = "";

  private SaveMemory(EngineContext context, int copies) {
    this.context = context;
    this.copies = context.hostMemory().copying(copies);
  }

  /**
   * Takes host memory for the members whose GPU memory is known and large enough, and checks that
   * there is memory for the save areas of the others.
   *
   * @throws dev.gpuprocess.error.FixAndRetryException if there is not
   */
  static SaveMemory take(TreeOperation operation) {
    EngineContext context = operation.tree().context;
    Optional<GpuReading> gpus = context.inventory().read();
    int copies = 0;
    Map<TrackedProcess, Long> held = new LinkedHashMap<>();
    Map<TrackedProcess, Long> needs = new LinkedHashMap<>();
    for (ProcessOperation each : operation.members()) {
      long bytes = GpuUsage.of(each.process().pid(), gpus).bytes();
      boolean isDivided = context.driverHook() && DividedCopy.isWorthwhile(bytes);
      if (isDivided) {
        copies++;
      }
      if (bytes > 0) {
        held.put(each.process(), bytes);
      }
      if (bytes > 0 && isDivided) {
        needs.put(each.process(), bytes + BESIDE);
      }
    }
    SaveMemory memory = new SaveMemory(context, copies);
    try {
      if (context.hostMemory().isUsed() && !needs.isEmpty()) {
        operation.members().get(0).steps().runNoted("prepare", 0, () -> memory.take(needs));
      }
      memory.requireRoom(held, operation);
    } catch (RuntimeException | Error e) {
      memory.close();
      throw e;
    }
    return memory;
  }

  private void requireRoom(Map<TrackedProcess, Long> held, TreeOperation operation) {
    Failure failure = operation.failure(null, null);
    Map<ProcessIdentity, Long> own = new LinkedHashMap<>();
    held.forEach(
        (process, bytes) -> {
          boolean isPrepared = prepared.containsKey(process);
          AddressSpaceCheck.require(process.pid(), bytes, isPrepared, option(bytes), failure);
          if (!isPrepared || isUnhookable(process.identity, bytes)) {
            own.put(process.identity, bytes);
          }
        });
    long least = own.values().stream().mapToLong(Long::longValue).min().orElse(1);
    HostMemoryCheck.require(own, missing, option(least), failure);
  }

  /** Returns the option that would let the driver save into files of the pool, or empty. */
  private String option(long bytes) {
    return context.driverHook() && !context.hostMemory().isUsed() && DividedCopy.isWorthwhile(bytes)
        ? ", or keep the GPU memory in files (" + FILES + ")"
        : "";
  }

  /** A hook is looked for only if it matters, since that takes milliseconds. */
  private static boolean isUnhookable(ProcessIdentity process, long bytes) {
    return HostMemoryCheck.obstacle(Map.of(process, bytes)).isPresent()
        && DriverHook.obstacle(process).isPresent();
  }

  private String take(Map<TrackedProcess, Long> needs) {
    List<TrackedProcess> processes = List.copyOf(needs.keySet());
    try {
      List<PreparedMemory> taken = context.hostMemory().take(needs.values());
      for (int i = 0; i < taken.size(); i++) {
        prepared.put(processes.get(i), taken.get(i));
      }
      long all = needs.values().stream().mapToLong(Long::longValue).sum();
      return "%s of host memory".formatted(Bytes.text(all));
    } catch (IOException e) {
      LOG.info("no host memory is prepared", e);
      missing = String.valueOf(e.getMessage());
      return "no host memory: " + e.getMessage();
    }
  }

  /** Returns the files that are prepared for a process. */
  List<FileId> filesOf(TrackedProcess process) {
    return prepared.getOrDefault(process, PreparedMemory.NONE).files().stream()
        .map(NamelessFile::id)
        .toList();
  }

  /**
   * Checkpoints a process, with its copies divided among threads if it holds enough GPU memory.
   *
   * @return a note for an operator of how it was done
   */
  String during(ProcessOperation member, Runnable checkpoint) {
    TrackedProcess process = member.process();
    if (!context.driverHook() || !DividedCopy.isWorthwhile(process.held().bytes())) {
      checkpoint.run();
      return "";
    }
    PreparedMemory own = prepared.getOrDefault(process, PreparedMemory.NONE);
    List<NamelessFile> saved = new ArrayList<>(own.files());
    // Without the hook the driver does not use the prepared memory.
    Runnable alone =
        () -> {
          saved.clear();
          Failure failure = member.failure(null, ProcessState.LOCKED);
          long bytes = process.held().bytes();
          // Here the memory files could not be used, if there were any.
          AddressSpaceCheck.require(process.pid(), bytes, false, "", failure);
          HostMemoryCheck.require(Map.of(process.identity, bytes), missing, "", failure);
          checkpoint.run();
        };
    String note =
        DividedCopy.during(
            process.identity, own, Math.max(1, copies.underWay()), true, checkpoint, alone);
    saved.removeIf(SaveMemory::isEmpty);
    HeldFiles.hold(process.identity, saved);
    process.recordSaveFiles(saved.stream().map(NamelessFile::id).toList());
    return note
        + (own.files().isEmpty() && !missing.isEmpty()
            ? ", as none could be made: " + missing
            : "");
  }

  /** Returns whether the driver has not needed a file. */
  private static boolean isEmpty(NamelessFile file) {
    try {
      return Files.size(file.path()) == 0;
    } catch (IOException e) {
      LOG.debug("the length of a save file is not known", e);
      return false;
    }
  }

  @Override
  public void close() {
    prepared.values().forEach(PreparedMemory::close);
    copies.close();
    context.hostMemory().refill();
  }
}
