package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ProcessUnfitException;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.List;
import java.util.stream.Collectors;

/**
 * The restore of one or several members of a job ran out of GPU memory: the driver will not bring
 * these back any more. The other members are left where they are, and none runs without those. The
 * way back is to end the whole job and restore an image of it.
 */
public class PoisonedJobException extends ProcessUnfitException {

  private static final long serialVersionUID = 1L;

  private final transient List<ProcessIdentity> poisoned;

  PoisonedJobException(
      RuntimeException told, ProcessIdentity root, List<ProcessIdentity> poisoned) {
    super(
        message(root, poisoned),
        told instanceof GpuCheckpointException known
            ? known.failure()
            : Failure.of("restore", root.pid()),
        told);
    this.poisoned = List.copyOf(poisoned);
    if (told instanceof GpuCheckpointException known) {
      known.job().ifPresent(this::inJob);
    }
  }

  /** For a job that was found so. */
  PoisonedJobException(ProcessIdentity root, List<ProcessIdentity> poisoned) {
    super(message(root, poisoned), Failure.of("inspect", root.pid()));
    this.poisoned = List.copyOf(poisoned);
  }

  private static String message(ProcessIdentity root, List<ProcessIdentity> poisoned) {
    return "a restore of job %s ran out of GPU memory, and the driver refuses to restore its member %s from now on: end the job and restore an image of it"
        .formatted(
            root.pid(),
            poisoned.stream()
                .map(each -> Integer.toString(each.pid()))
                .collect(Collectors.joining(", ")));
  }

  /**
   * The members that will not come back.
   *
   * @return at least one
   */
  public List<ProcessIdentity> poisoned() {
    return poisoned;
  }
}
