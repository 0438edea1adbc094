package dev.gpuprocess.slot;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * A process in the queue of a {@link GpuSlot}. Immutable.
 *
 * @param process its pid and start time; for a process on disk, those that it had
 * @param place where its GPU memory is
 * @param priority the greater, the more urgent
 * @param wanted whether it wants a GPU: it was acquired or enqueued, and was not released since
 * @param gpus the GPUs that it takes; empty if that is not known, and it takes all then
 * @param gpuBytes how many bytes it held on its GPUs when it was last seen
 * @param onGpu how long it has had its turns in all
 * @param image its image; null unless it is on disk
 */
public record SlotProcess(
    ProcessIdentity process,
    Place place,
    int priority,
    boolean wanted,
    Set<GpuUuid> gpus,
    long gpuBytes,
    Duration onGpu,
    @Nullable Path image) {

  /** Where the GPU memory of a process is. */
  public enum Place {
    /** On its GPUs: the process runs. */
    GPU,
    /** In host memory: the process is suspended. */
    HOST_MEMORY,
    /** In an image: the process does not exist until it is restored. */
    DISK
  }

  /** Copies the set. */
  public SlotProcess {
    gpus = Collections.unmodifiableSet(new TreeSet<>(gpus));
  }

  /**
   * The process id.
   *
   * @return greater than 0
   */
  public int pid() {
    return process.pid();
  }
}
