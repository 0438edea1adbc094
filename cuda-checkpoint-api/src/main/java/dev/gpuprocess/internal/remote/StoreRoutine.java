package dev.gpuprocess.internal.remote;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import java.util.List;

/**
 * A routine that changes words in the memory of the process that has it. A thread of the process
 * changes each word by one instruction, since other threads may read it at any moment, and only if
 * it has the expected value. The words are in a list, so that many of them need one call.
 */
public final class StoreRoutine {

  /** The most words in a list. */
  static final int MOST = 16;

  static final int WORD_BYTES = 3 * Long.BYTES;

  //    mov %rax,%r10           the number of the system call
  // 1: mov (%r8),%rcx          %r8: the list
  //    mov 8(%r8),%rax
  //    mov 16(%r8),%rdx
  //    lock cmpxchg %rdx,(%rcx)
  //    add $24,%r8
  //    cmp %r9,%r8             %r9: the end of the list
  //    jb 1b
  //    mov %r10,%rax
  //    syscall
  //    ret
  private static final String CODE =
      "4989c2498b08498b4008498b5010f0480fb1114983c0184d39c872e74c89d00f05c3";

  private StoreRoutine() {}

  /**
   * A word to be changed.
   *
   * @param address a multiple of 8
   * @param expected the value without which the word is not changed
   * @param value the new value
   */
  public record Word(long address, long expected, long value) {}

  /** Returns the code, which may be at any address. {@code hook.c} has space for it. */
  public static byte[] code() {
    return HexFormat.of().parseHex(CODE);
  }

  /** Returns the address behind the routine's system call. */
  public static long behindCall(long routine) {
    return routine + CODE.length() / 2 - 1;
  }

  /** Returns the list for the routine. */
  static byte[] list(List<Word> words) {
    ByteBuffer list = ByteBuffer.allocate(words.size() * WORD_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    words.forEach(
        word -> list.putLong(word.address()).putLong(word.expected()).putLong(word.value()));
    return list.array();
  }
}
