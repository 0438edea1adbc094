package dev.gpuprocess.report;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.internal.text.Printable;
import java.time.Instant;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * A process that a controller keeps from running on its GPU, as the journal in the state directory
 * records it. Immutable.
 *
 * @param process its pid and start time
 * @param step how far the controller got, such as {@code lock}, {@code checkpointed} or {@code
 *     dump}
 * @param controller the pid of the JVM that made the last step, in the pid namespace of that JVM
 * @param controllerAlive whether that JVM is alive; also true when it cannot be seen from here
 * @param user the user of that JVM, by name or else by number
 * @param since when a controller took the process away from running; null if not known
 * @param gpuBytes the bytes that it held on each GPU at its checkpoint; empty if not known
 * @param poisoned whether the driver refuses to restore it because an earlier restore ran out of
 *     GPU memory
 * @param root the root of the tree that it is suspended with; the process itself if the root cannot
 *     be seen from here
 * @param label the label of its suspend, or of the image that it was restored from; null for none
 */
public record SuspendedProcess(
    ProcessIdentity process,
    String step,
    int controller,
    boolean controllerAlive,
    String user,
    @Nullable Instant since,
    Map<GpuUuid, Long> gpuBytes,
    boolean poisoned,
    ProcessIdentity root,
    @Nullable String label) {

  /** Copies the map. */
  public SuspendedProcess {
    gpuBytes = Collections.unmodifiableMap(new TreeMap<>(gpuBytes));
  }

  /**
   * The process in one line.
   *
   * @return pid, step, time and controller
   */
  @Override
  public String toString() {
    return "process " + process.pid() + ", " + words();
  }

  /** The same without the process. */
  String words() {
    return (poisoned ? "poisoned" : Printable.of(step))
        + (since == null ? "" : ", away since " + since)
        + " by process %s of %s%s"
            .formatted(controller, Printable.of(user), controllerAlive ? "" : ", which has ended")
        + (root.equals(process) ? "" : ", with process " + root.pid())
        + (label == null ? "" : ", labelled " + Printable.of(label));
  }
}
