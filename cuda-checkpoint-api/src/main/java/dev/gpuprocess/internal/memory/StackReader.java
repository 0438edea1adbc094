package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reads the stacks of the threads of a process. */
final class StackReader {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private final ProcessMemory memory;

  StackReader(ProcessMemory memory) {
    this.memory = memory;
  }

  /** Parses {@code 202 0x7f.. 0x189 0x0 0x0 0x0 0x0 STACK INSTRUCTION}. */
  static long pointer(String[] words) {
    return Long.parseUnsignedLong(words[words.length - 2].substring(2), 16);
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
