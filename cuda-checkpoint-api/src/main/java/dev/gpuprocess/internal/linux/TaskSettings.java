package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The settings of a task (a thread) that CRIU does not dump. Without them a restored task has the
 * settings of the restoring program. CRIU dumps niceness, policy and {@code oom_score_adj}.
 *
 * @param task its number in its own pid namespace, which a restore keeps
 * @param cpus the CPUs on which it may run, such as {@code 0-3,8}; empty for all CPUs
 * @param ioPriority as {@code ioprio_get(2)} returns it
 * @param timerSlack in nanoseconds
 * @param coredumpFilter the memory that a core dump contains ({@code /proc/PID/coredump_filter})
 */
public record TaskSettings(
    int task, String cpus, int ioPriority, long timerSlack, int coredumpFilter) {

  private static final Pattern TEXT =
      Pattern.compile(
          "task (\\d{1,9}) cpus (all|[0-9,-]{1,4000}) io (\\d{1,9}) slack (\\d{1,18}) core ([0-9a-f]{1,7})");
  private static final Pattern RANGE = Pattern.compile("(\\d{1,5})(?:-(\\d{1,5}))?");
  private static final int MOST_CPUS = 8192;
  private static final int PROCESS = 1; // IOPRIO_WHO_PROCESS, which means a thread

  /**
   * Reads the settings of a task.
   *
   * @param task its number in the pid namespace of this JVM
   * @return empty when the task has ended
   * @throws IOException when a setting cannot be read
   */
  public static Optional<TaskSettings> of(int task) throws IOException {
    var status = ProcFs.status(task);
    String cpus = status.get("Cpus_allowed_list");
    if (cpus == null) {
      return Optional.empty();
    }
    try {
      return Optional.of(
          new TaskSettings(
              ProcFs.innermostPid(task).orElse(task),
              isAll(cpus) ? "" : cpus,
              Libc.check(
                  Libc.functions().syscall(SystemCalls.IOPRIO_GET, PROCESS, task, 0), "ioprio_get"),
              Long.parseLong(read(task, "timerslack_ns")),
              Integer.parseUnsignedInt(read(task, "coredump_filter"), 16)));
    } catch (NoSuchFileException gone) {
      return Optional.empty();
    } catch (NumberFormatException e) {
      throw new IOException("unexpected text in /proc/" + task, e);
    }
  }

  private static String read(int task, String file) throws IOException {
    return Files.readString(file(task, file), StandardCharsets.US_ASCII).strip();
  }

  private static Path file(int task, String name) {
    return ProcFs.file(task, name);
  }

  /** Returns whether a list has every CPU that is online: such a list restricts nothing. */
  private static boolean isAll(String cpus) throws IOException {
    BitSet online = set(Files.readString(Path.of("/sys/devices/system/cpu/online")).strip());
    online.andNot(set(cpus));
    return online.isEmpty();
  }

  private static BitSet set(String cpus) {
    BitSet set = new BitSet();
    for (String part : cpus.split(",")) {
      Matcher range = RANGE.matcher(part);
      if (range.matches()) {
        int first = Integer.parseInt(range.group(1));
        int last = range.group(2) == null ? first : Integer.parseInt(range.group(2));
        if (last < MOST_CPUS && first <= last) {
          set.set(first, last + 1);
        }
      }
    }
    return set;
  }

  /**
   * Applies these settings to a task.
   *
   * @param number the task in the pid namespace of this JVM
   * @throws IOException when a setting cannot be applied; the others are applied
   */
  public void putBack(int number) throws IOException {
    IOException failure = null;
    for (Setting setting :
        new Setting[] {this::setCpus, this::setIo, this::setSlack, this::setFilter}) {
      try {
        setting.set(number);
      } catch (IOException e) {
        if (failure == null) {
          failure = e;
        } else {
          failure.addSuppressed(e);
        }
      }
    }
    if (failure != null) {
      throw failure;
    }
  }

  private interface Setting {
    void set(int number) throws IOException;
  }

  private void setCpus(int number) throws IOException {
    BitSet set = set(cpus);
    if (cpus.isEmpty()) {
      set.set(0, MOST_CPUS);
    }
    byte[] mask = ByteBuffer.allocate(MOST_CPUS / Byte.SIZE).put(set.toByteArray()).array();
    int unused =
        Libc.check(
            Libc.functions().sched_setaffinity(number, mask.length, mask),
            "sched_setaffinity to CPUs " + (cpus.isEmpty() ? "of this machine" : cpus));
  }

  private void setIo(int number) throws IOException {
    int unused =
        Libc.check(
            Libc.functions().syscall(SystemCalls.IOPRIO_SET, PROCESS, number, ioPriority),
            "ioprio_set to " + ioPriority);
  }

  private void setSlack(int number) throws IOException {
    Files.writeString(file(number, "timerslack_ns"), Long.toString(timerSlack));
  }

  private void setFilter(int number) throws IOException {
    Files.writeString(file(number, "coredump_filter"), "0x" + Integer.toHexString(coredumpFilter));
  }

  /**
   * Parses the text of {@link #toString}.
   *
   * @return empty when the line is something else
   */
  public static Optional<TaskSettings> parse(String line) {
    Matcher text = TEXT.matcher(line);
    return text.matches()
        ? Optional.of(
            new TaskSettings(
                Integer.parseInt(text.group(1)),
                text.group(2).equals("all") ? "" : text.group(2),
                Integer.parseInt(text.group(3)),
                Long.parseLong(text.group(4)),
                Integer.parseInt(text.group(5), 16)))
        : Optional.empty();
  }

  /** Returns one line for an image. */
  @Override
  public String toString() {
    return "task %s cpus %s io %s slack %s core %s"
        .formatted(
            Integer.toString(task),
            cpus.isEmpty() ? "all" : cpus,
            Integer.toString(ioPriority),
            Long.toString(timerSlack),
            Integer.toHexString(coredumpFilter));
  }
}
