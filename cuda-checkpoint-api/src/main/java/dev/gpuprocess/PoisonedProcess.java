package dev.gpuprocess;

import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.engine.StateHandle;
import dev.gpuprocess.internal.launch.Departure;

/**
 * A process whose GPU restore ran out of memory. The driver calls it checkpointed and refuses every
 * later restore (NVIDIA/cuda-checkpoint issue 44), so {@link GpuProcess#inspect} cannot tell it
 * from a healthy one; {@link dev.gpuprocess.PoisonedProcessException#process()} brings it. The way
 * back is an image of it.
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
   * @return the process as it was at the dump, checkpointed
   * @throws IllegalArgumentException when the image is of another process
   * @throws dev.gpuprocess.error.ImageCorruptException when the image is not whole; the process was
   *     not touched
   * @throws dev.gpuprocess.error.StaleStateException as {@link #end}; nothing was touched
   * @throws dev.gpuprocess.error.PidTakenException when the parent of the process does not reap it
   */
  public CheckpointedProcess replaceWith(ProcessImage image) {
    if (!self.target().isIn(image.manifest())) {
      throw new IllegalArgumentException(
          image + " was made of another process than " + identity() + ": nothing was touched");
    }
    image.verify();
    try (Departure departure = Departure.of(identity())) {
      end();
      departure.done();
    }
    return image.restore();
  }

  /**
   * Ends the process with SIGKILL and waits until it is gone, or a zombie of its parent. Looks
   * first: one that came back all the same is not ended. Does nothing when it has ended.
   *
   * @throws dev.gpuprocess.error.StaleStateException when the process is no longer checkpointed, or
   *     this object is not the newest one
   * @throws dev.gpuprocess.error.ProcessStoppedException when it is stopped, and cannot be looked
   *     at
   */
  public void end() {
    self.end(ProcessState.CHECKPOINTED);
  }

  @Override
  String condition() {
    return "poisoned";
  }
}
