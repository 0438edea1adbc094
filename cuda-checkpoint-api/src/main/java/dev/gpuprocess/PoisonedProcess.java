package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.Resumption;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.engine.TrackedProcess;
import dev.gpuprocess.internal.launch.LaunchedRoot;
import dev.gpuprocess.internal.launch.LaunchedRoot.DumpInProgress;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * A process of which the GPU restore of a member ran out of memory. The driver calls it
 * checkpointed and refuses every later restore (NVIDIA/cuda-checkpoint issue 44). {@link
 * GpuProcess#inspect} knows it by the journal in the state directory, for as long as the process
 * lives; {@link dev.gpuprocess.PoisonedProcessException#process()} is the same object. The way back
 * is an image of it.
 */
public final class PoisonedProcess extends LiveProcess implements GpuProcess {

  PoisonedProcess(StateHandle self) {
    super(self, ProcessState.CHECKPOINTED);
  }

  /**
   * Ends this process and restores an image of it, made after its checkpoint: the way back that was
   * measured to work. The image is verified before the process is ended.
   *
   * @param image an image of this very process, or the one that it was restored from
   * @return the process in its state at the dump, checkpointed
   * @throws IllegalArgumentException when the image is of another process
   * @throws dev.gpuprocess.error.ImageException with reason CORRUPT when the image is not whole;
   *     the process was not touched
   * @throws dev.gpuprocess.error.StaleStateException as {@link #end}; nothing was touched
   * @throws dev.gpuprocess.error.PidTakenException when the parent of the process does not reap it
   */
  public CheckpointedProcess replaceWith(ProcessImage image) {
    if (!self.tree().isIn(image.data())) {
      throw new IllegalArgumentException(
          image + " was made of another process than " + identity() + ": nothing was touched");
    }
    image.verify();
    try (DumpInProgress dump = LaunchedRoot.dumping(identity())) {
      end();
      dump.done();
    }
    return image.restore();
  }

  /**
   * Ends the process and its descendants with SIGKILL and waits until they are gone, or the process
   * is a zombie of its parent. Looks first: a process whose poisoned members came back all the same
   * is not ended. Does nothing when it has ended.
   *
   * @throws dev.gpuprocess.error.StaleStateException when a poisoned member is not checkpointed any
   *     more, or this object is not the newest one
   * @throws dev.gpuprocess.error.FixAndRetryException with reason PROCESS_STOPPED when it is
   *     stopped, and cannot be read
   */
  public void end() {
    self.end(ProcessState.CHECKPOINTED);
  }

  /**
   * Returns the image from which {@link #replaceWith} restores the suspended process: the
   * {@linkplain dev.gpuprocess.options.ResumeOptions.Builder#fallbackImage fallback image} of the
   * failed resume, the image of the snapshot that failed with its resume, or the image that the
   * process was restored from and has not run since.
   *
   * @return where the image was made; empty for none. It may have been moved or removed since
   */
  public Optional<Path> fallbackImage() {
    return self.tree().members().stream()
        .flatMap(each -> Stream.ofNullable(each.fallbackImage()))
        .findFirst();
  }

  /**
   * Returns the members that the driver refuses to restore.
   *
   * @return at least one, unless they have ended
   */
  public List<ProcessIdentity> poisoned() {
    return self.tree().members().stream()
        .filter(TrackedProcess::isPoisoned)
        .map(each -> each.identity)
        .toList();
  }

  /**
   * Tries to resume the process all the same ({@code cuCheckpointProcessRestore} and {@code
   * cuCheckpointProcessUnlock}). Driver 580 always refuses that. It does no harm, and a process
   * that a later driver restores is not lost. The memory that it needs is checked first, as for
   * {@link CheckpointedProcess#resume()}.
   *
   * @return the running process
   * @throws dev.gpuprocess.PoisonedProcessException when the driver refuses; the process is still
   *     here and poisoned
   * @throws dev.gpuprocess.error.InsufficientGpuMemoryException when there is too little free GPU
   *     memory; the process is still here and poisoned
   * @throws dev.gpuprocess.error.StaleStateException when the process is not checkpointed any more,
   *     or this object is not the newest one
   */
  public RunningProcess resume() {
    return orPoisoned(
        () ->
            self.bringBack(
                "resume",
                ProcessState.CHECKPOINTED,
                ProcessState.RUNNING,
                Set.of(ProcessState.LOCKED, ProcessState.RUNNING),
                operation ->
                    Resumption.unlimited(self.tree().context, operation.members())
                        .includePoisoned()
                        .resumeFound(),
                RunningProcess::new));
  }

  @Override
  String condition() {
    return "poisoned";
  }
}
