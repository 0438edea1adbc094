package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.internal.engine.GpuMemoryLostException;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The restore of a member ran out of GPU memory: the driver will not bring this process back any
 * more. Other members are left where they are, and none runs.
 */
public class PoisonedProcessException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  private final transient @Nullable PoisonedProcess process;

  private PoisonedProcessException(
      String message, Failure failure, RuntimeException cause, PoisonedProcess process) {
    super(Reason.OUT_OF_GPU_MEMORY, message, failure, cause);
    this.process = process;
  }

  /** For what a verb threw, which is or has suppressed the loss of GPU memory. */
  static PoisonedProcessException of(RuntimeException thrown, PoisonedProcess process) {
    Failure failure =
        thrown instanceof GpuCheckpointException known
            ? known.failure()
            : Failure.of("restore", process.pid());
    boolean saysAll = thrown instanceof GpuMemoryLostException && process.self.tree().isSingle();
    PoisonedProcessException made =
        new PoisonedProcessException(
            saysAll ? String.valueOf(thrown.getMessage()) : message(process),
            failure,
            thrown,
            process);
    if (thrown instanceof GpuCheckpointException known) {
      known.tree().ifPresent(made::inTree);
    }
    return made;
  }

  private static String message(PoisonedProcess process) {
    return "a restore of process %s ran out of GPU memory, and the driver refuses to restore %s from now on: end the process and restore an image of it"
        .formatted(
            process.pid(),
            process.poisoned().stream()
                .map(each -> Integer.toString(each.pid()))
                .collect(Collectors.joining(", ")));
  }

  /**
   * Returns the process, which can only be ended, and restored from an image.
   *
   * @return what is left of it
   * @throws IllegalStateException when this exception was serialized: take the process with {@link
   *     GpuProcess#inspect} on its machine
   */
  public PoisonedProcess process() {
    if (process == null) {
      throw new IllegalStateException(
          "the process is not part of a serialized exception: use GpuProcess.inspect(%s) on its machine"
              .formatted(failure().pid()));
    }
    return process;
  }
}
