package dev.gpuprocess.internal.proc;

import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;

/** A limit of a process for what it maps, as {@code /proc/PID/limits} has it. */
public enum ProcLimit {
  /** All that it maps: {@code RLIMIT_AS}. */
  ADDRESS_SPACE("Max address space", "VmSize"),
  /** Its private memory that can be written: {@code RLIMIT_DATA}. */
  DATA("Max data size", "VmData");

  private static final Pattern BYTES = Pattern.compile("\\d{1,18}");

  private final String name;
  private final String use;

  ProcLimit(String name, String use) {
    this.name = name;
    this.use = use;
  }

  /**
   * Returns how much more a process may map before its soft limit.
   *
   * @param pid the process
   * @return bytes; empty without a limit, and when the process is gone
   */
  public OptionalLong room(long pid) {
    OptionalLong most =
        ProcFields.lines(ProcFs.read(pid, "limits").orElse(""))
            .filter(line -> line.startsWith(name))
            .map(line -> line.substring(name.length()).strip().split("\\s+", 2)[0])
            .filter(value -> BYTES.matcher(value).matches())
            .mapToLong(Long::parseLong)
            .findFirst();
    OptionalLong used = ProcFields.bytes(ProcFs.read(pid, "status").orElse(""), Set.of(use));
    return most.isPresent() && used.isPresent()
        ? OptionalLong.of(Math.max(0, most.getAsLong() - used.getAsLong()))
        : OptionalLong.empty();
  }
}
