package dev.gpuprocess.internal.remote;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.Registers.Name;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.List;
import java.util.OptionalLong;

/**
 * Finds unused space below the stack pointer of a stopped thread. A stack is unused below the red
 * zone. But it must be certain that the stack pointer is in a stack, and that the stack extends
 * that far: the stack of a goroutine or coroutine is a few KiB among other data, and an alternate
 * signal stack may be an array in the middle of the thread's stack.
 */
record StackSpace(List<Mapping> mappings, ProcessMemory memory) {

  /** More than the 128 bytes that the ABI allows functions to use. */
  private static final int RED_ZONE = 256;

  /** {@code PTHREAD_STACK_MIN} of glibc, without its thread descriptor. */
  private static final int LEAST_STACK = 16384 - 2304;

  private static final int SCANNED = 1 << 16;
  private static final long LEAST_ALTERNATE = 2048;
  private static final long MOST_ALTERNATE = 16 << 20;
  private static final int AUTODISARM = 1 << 31;

  /**
   * Finds space.
   *
   * @param registers of the thread
   * @param bytes the size of the space
   * @return its first address, a multiple of 64; empty if it is not certain that it is unused
   */
  OptionalLong below(Registers registers, int bytes) {
    long stack = registers.get(Name.RSP);
    long low = stack - RED_ZONE - bytes & -ExtendedState.ALIGNMENT;
    return mappings.stream()
            .filter(each -> each.start() <= low && stack < each.end())
            .filter(each -> each.permissions().equals("rw-p") && each.inode() == 0)
            .anyMatch(each -> isStack(each, registers, low) && !isAlternate(each, stack))
        ? OptionalLong.of(low)
        : OptionalLong.empty();
  }

  private boolean isStack(Mapping mapping, Registers registers, long low) {
    if (mapping.name().equals("[stack]")) {
      return true;
    }
    if (!mapping.name().isEmpty() && !mapping.name().startsWith("[anon:")) {
      return false;
    }
    long descriptor = registers.get(Name.FS_BASE);
    return registers.get(Name.RSP) < descriptor
        && descriptor < mapping.end()
        && pointsToItself(descriptor)
        && (low >= descriptor - LEAST_STACK || hasGuard(mapping));
  }

  /** True for a thread descriptor of the ABI, which is above the stack of its thread. */
  private boolean pointsToItself(long descriptor) {
    try {
      return memory.readLong(descriptor) == descriptor;
    } catch (NativeCallException unreadable) {
      return false;
    }
  }

  private boolean hasGuard(Mapping mapping) {
    return mappings.stream()
        .anyMatch(each -> each.end() == mapping.start() && each.permissions().startsWith("---"));
  }

  /** Searches above the stack pointer for a signal frame, which describes the handler's stack. */
  private boolean isAlternate(Mapping mapping, long stack) {
    long from = stack & -Long.BYTES;
    LongBuffer words;
    try {
      words =
          ByteBuffer.wrap(memory.read(from, (int) Math.min(SCANNED, mapping.end() - from)))
              .order(ByteOrder.LITTLE_ENDIAN)
              .asLongBuffer();
    } catch (NativeCallException unreadable) {
      return true;
    }
    for (int i = 0; i + 2 < words.limit(); i++) {
      long start = words.get(i);
      long size = words.get(i + 2);
      int flags = (int) words.get(i + 1);
      if (mapping.start() <= start
          && start <= stack
          && size >= LEAST_ALTERNATE
          && size <= MOST_ALTERNATE
          && stack < start + size
          && (flags == 0 || flags == AUTODISARM)) {
        return true;
      }
    }
    return false;
  }
}
