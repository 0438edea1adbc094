package dev.gpuprocess.internal.proc;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * The environment that a program was executed with ({@code /proc/PID/environ}). It lacks variables
 * that the program set later, and the program can overwrite it.
 */
public final class Environment {

  /** The kernel gives a program 6 MiB of arguments and environment at most. */
  private static final int MOST_BYTES = 6 << 20;

  private Environment() {}

  /**
   * Reads some variables, in the first 6 MiB.
   *
   * @param pid the process
   * @param names the names of the variables
   * @return the variables found, the first of each name
   * @throws ProcessUnreadableException when it may not be read
   */
  public static Map<String, String> of(long pid, Set<String> names) {
    byte[] bytes =
        ProcFile.head(ProcFs.alive(pid).resolve("environ"), MOST_BYTES).orElse(new byte[0]);
    Map<String, String> found = new HashMap<>();
    for (int from = 0, to; from < bytes.length; from = to + 1) {
      int equals = -1;
      for (to = from; to < bytes.length && bytes[to] != 0; to++) {
        equals = equals < 0 && bytes[to] == '=' ? to : equals;
      }
      if (equals >= 0) {
        String name = text(bytes, from, equals);
        if (names.contains(name)) {
          found.putIfAbsent(name, text(bytes, equals + 1, to));
        }
      }
    }
    return found;
  }

  private static String text(byte[] bytes, int from, int to) {
    return new String(bytes, from, to - from, StandardCharsets.UTF_8);
  }
}
