package dev.gpuprocess.internal.proc;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Collectors;

/**
 * The memory limit of a control group ({@code mm/memcontrol.c}).
 *
 * @param group the directory of the group
 * @param room how many bytes more its processes can use, not counting page cache, which the kernel
 *     frees first; below 0 while they use more than a limit that was lowered
 * @param swap how many bytes more they can swap out, if the machine has as much swap space
 */
public record MemoryLimit(Path group, long room, long swap) {

  /** Version 1 rounds the largest number down to a page. */
  private static final long UNLIMITED = Long.MAX_VALUE - (1 << 20);

  /**
   * Reads the limit of a group of version 2.
   *
   * @return empty if it has none
   */
  static Optional<MemoryLimit> unified(Path group) {
    OptionalLong limit = number(group, "memory.max");
    OptionalLong used = number(group, "memory.current");
    if (limit.isEmpty() || used.isEmpty()) {
      return Optional.empty();
    }
    Map<String, Long> counts = counts(group);
    long cached = counts.getOrDefault("active_file", 0L) + counts.getOrDefault("inactive_file", 0L);
    long swappable = number(group, "memory.swap.max").orElse(Long.MAX_VALUE);
    long swapped = number(group, "memory.swap.current").orElse(0);
    return Optional.of(
        new MemoryLimit(
            group,
            limit.getAsLong() - used.getAsLong() + cached,
            Math.max(0, swappable - swapped)));
  }

  /**
   * Reads the limit of a group of version 1, which includes the limits of groups above that are not
   * visible here.
   *
   * @return empty if it has none
   */
  static Optional<MemoryLimit> legacy(Path group) {
    OptionalLong own = number(group, "memory.limit_in_bytes");
    OptionalLong used = number(group, "memory.usage_in_bytes");
    if (own.isEmpty() || used.isEmpty()) {
      return Optional.empty();
    }
    Map<String, Long> counts = counts(group);
    long limit =
        Math.min(own.getAsLong(), counts.getOrDefault("hierarchical_memory_limit", Long.MAX_VALUE));
    if (limit >= UNLIMITED) {
      return Optional.empty();
    }
    long cached =
        counts.getOrDefault("total_active_file", 0L)
            + counts.getOrDefault("total_inactive_file", 0L);
    long room = limit - used.getAsLong() + cached;
    // This limit is of memory and swap space together.
    long both = number(group, "memory.memsw.limit_in_bytes").orElse(Long.MAX_VALUE);
    long bothUsed = number(group, "memory.memsw.usage_in_bytes").orElse(0);
    return Optional.of(
        new MemoryLimit(group, room, Math.max(0, both - bothUsed + cached - Math.max(0, room))));
  }

  /** Reads a file with one number; empty if it contains {@code max}, or does not exist. */
  private static OptionalLong number(Path group, String file) {
    try {
      return number(Files.readString(group.resolve(file)).strip());
    } catch (IOException noSuchControllerHere) {
      return OptionalLong.empty();
    }
  }

  private static OptionalLong number(String text) {
    try {
      return OptionalLong.of(Long.parseLong(text));
    } catch (NumberFormatException max) {
      return OptionalLong.empty();
    }
  }

  private static Map<String, Long> counts(Path group) {
    try {
      return Files.readAllLines(group.resolve("memory.stat")).stream()
          .map(line -> line.split(" "))
          .filter(words -> words.length == 2 && number(words[1]).isPresent())
          .collect(
              Collectors.toMap(
                  words -> words[0], words -> number(words[1]).orElse(0), (first, next) -> next));
    } catch (IOException noSuchControllerHere) {
      return Map.of();
    }
  }
}
