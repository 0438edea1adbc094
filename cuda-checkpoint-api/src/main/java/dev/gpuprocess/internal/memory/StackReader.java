package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the stacks of the threads of a process. A thread that is in a signal handler has several:
 * that of the handler, which may be an alternate stack, and that which the signal interrupted. The
 * kernel writes the registers of the interrupted code to the handler's stack ({@code struct
 * rt_sigframe}).
 */
final class StackReader {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** The frames of libcuda below a call are much smaller. */
  private static final int STACK_BYTES = 1 << 16;

  /** The frames of a signal handler, up to its signal frame, are smaller. */
  private static final int HANDLER_BYTES = 1 << 18;

  /** Handlers that interrupt each other. */
  private static final int MOST_STACKS = 8;

  // The words of a signal frame, from its first, which is the address of the restorer.
  private static final int FLAGS = 1;
  private static final int LINK = 2;
  private static final int RESULT = 19;
  private static final int STACK_POINTER = 21;
  private static final int SELECTORS = 24;
  private static final int MASK = 38;
  private static final long MOST_FLAGS = 7;
  private static final long USER_CODE = 0x33;

  private static final long EINTR = -4;
  private static final long FUTEX = 202;

  private final ProcessMemory memory;

  StackReader(ProcessMemory memory) {
    this.memory = memory;
  }

  /**
   * A stack of a thread.
   *
   * @param pointer the address of its top
   * @param words its words from there, to read by index
   * @param interrupted whether a signal interrupted the code on this stack
   * @param slept whether that code slept in a futex
   * @param certain whether the handler has not returned: the signal is still blocked
   */
  record Stack(
      long pointer, LongBuffer words, boolean interrupted, boolean slept, boolean certain) {}

  /** Parses {@code 202 0x7f.. 0x189 0x0 0x0 0x0 0x0 STACK INSTRUCTION}. */
  static long pointer(String[] words) {
    return Long.parseUnsignedLong(words[words.length - 2].substring(2), 16);
  }

  /**
   * Reads all stacks of a thread.
   *
   * @param pointer the stack pointer of the thread
   * @return the current stack first; empty if it is in no mapping, or a stack cannot be read
   */
  Optional<List<Stack>> of(int thread, long pointer, List<Mapping> mappings) {
    List<Stack> stacks = new ArrayList<>();
    Stack next = new Stack(pointer, LongBuffer.allocate(0), false, false, true);
    while (stacks.size() < MOST_STACKS) {
      Optional<long[]> read = words(next.pointer(), mappings, HANDLER_BYTES);
      if (read.isEmpty()) {
        return Optional.empty();
      }
      long[] words = read.get();
      int frame = signalFrame(words);
      int most = Math.min(frame < 0 ? words.length : frame, STACK_BYTES / Long.BYTES);
      stacks.add(
          new Stack(
              next.pointer(),
              LongBuffer.wrap(words, 0, most).slice(),
              next.interrupted(),
              next.slept(),
              next.certain()));
      if (frame < 0) {
        break;
      }
      long result = words[frame + RESULT];
      next =
          new Stack(
              words[frame + STACK_POINTER],
              LongBuffer.allocate(0),
              true,
              result == EINTR || result == FUTEX,
              next.certain() && blockedSignals(thread) != words[frame + MASK]);
    }
    return Optional.of(stacks);
  }

  /** Returns the index of the first signal frame; negative if there is none. */
  private static int signalFrame(long[] words) {
    for (int i = 0; i + MASK < words.length; i++) {
      if (words[i + FLAGS] > 0
          && words[i + FLAGS] <= MOST_FLAGS
          && words[i + LINK] == 0
          && (words[i + SELECTORS] & 0xffff) == USER_CODE) {
        return i;
      }
    }
    return -1;
  }

  private static long blockedSignals(int thread) {
    String mask = ProcFs.status(thread).getOrDefault("SigBlk", "");
    return mask.isEmpty() ? 0 : Long.parseUnsignedLong(mask, 16);
  }

  /**
   * Reads words of a stack from its top.
   *
   * @param most the number of bytes to read at most
   * @return empty if the stack pointer is in no mapping, or the stack cannot be read
   */
  Optional<long[]> words(long pointer, List<Mapping> mappings, int most) {
    Optional<Mapping> stack = mappings.stream().filter(each -> each.contains(pointer)).findFirst();
    if (stack.isEmpty()) {
      return Optional.empty();
    }
    int bytes = (int) Math.min(most, stack.get().end() - pointer) & -Long.BYTES;
    try {
      byte[] content = memory.read(pointer, bytes);
      long[] words = new long[bytes / Long.BYTES];
      ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(words);
      return Optional.of(words);
    } catch (NativeCallException e) {
      LOG.debug("the stack of a thread cannot be read", e);
      return Optional.empty();
    }
  }
}
