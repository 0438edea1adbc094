package dev.gpuprocess.report;

import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import dev.gpuprocess.internal.text.Bytes;
import dev.gpuprocess.internal.text.Printable;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * A process that uses a GPU, or is suspended from one, at one moment. Immutable.
 *
 * @param identity its pid and start time
 * @param owner its effective user, by name or else by number; empty if that cannot be read
 * @param command its program and arguments, or the kernel's name of it; empty if that cannot be
 *     read
 * @param state what the driver reports; null if it was not asked or did not answer
 * @param note why the state is not known; otherwise empty
 * @param gpuBytes the bytes that it holds on each GPU, as NVML reports them; those of its last
 *     checkpoint while it is suspended
 * @param gpuBytesKnown whether these are all; false where neither NVML nor the journal knows
 * @param suspended who keeps it from running; null if the journal has no entry of it
 */
public record ListedProcess(
    ProcessIdentity identity,
    String owner,
    List<String> command,
    @Nullable ProcessState state,
    String note,
    Map<GpuUuid, Long> gpuBytes,
    boolean gpuBytesKnown,
    @Nullable SuspendedProcess suspended) {

  /** Copies the list and the map. */
  public ListedProcess {
    command = List.copyOf(command);
    gpuBytes = Collections.unmodifiableMap(new TreeMap<>(gpuBytes));
  }

  /**
   * The process id.
   *
   * @return greater than 0
   */
  public int pid() {
    return identity.pid();
  }

  /**
   * The process in one line.
   *
   * @return pid, owner, state, GPU memory, command and who suspended it
   */
  @Override
  public String toString() {
    return "%s %s %s, %s, %s%s"
        .formatted(
            Integer.toString(pid()),
            owner.isEmpty() ? "?" : Printable.of(owner),
            state == null ? "state unknown (%s)".formatted(Printable.of(note)) : state,
            memory(),
            Printable.of(String.join(" ", command)),
            suspended == null ? "" : "; " + suspended.words());
  }

  private String memory() {
    String known =
        gpuBytes.entrySet().stream()
            .map(each -> Bytes.text(each.getValue()) + " of " + each.getKey())
            .collect(Collectors.joining(" and "));
    if (gpuBytesKnown) {
      return known.isEmpty() ? "no GPU memory" : known;
    }
    return known.isEmpty() ? "unknown GPU memory" : known + " and perhaps more";
  }
}
