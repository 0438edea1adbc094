package dev.gpuprocess.internal.remote;

import java.util.Arrays;

/** The text of {@code /proc/PID/syscall}. */
final class CallText {

  private CallText() {}

  /**
   * Parses the text of a thread that waits in a system call, such as {@code 202 0x7f.. 0x189 0x0
   * 0x0 0x0 0xffffffff 0x7f.. 0x7f..}.
   *
   * @return the number of the call, its six arguments, the stack pointer and the instruction
   *     pointer; fewer when the thread is not in a call
   */
  static long[] words(String call) {
    try {
      return Arrays.stream(call.strip().split(" "))
          .mapToLong(
              word ->
                  word.startsWith("0x")
                      ? Long.parseUnsignedLong(word.substring(2), 16)
                      : Long.parseLong(word))
          .toArray();
    } catch (NumberFormatException e) {
      return new long[0];
    }
  }
}
