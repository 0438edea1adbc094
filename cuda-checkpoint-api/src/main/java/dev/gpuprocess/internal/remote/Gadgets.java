package dev.gpuprocess.internal.remote;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The addresses of instructions that a process has mapped, in its C library or its program. They
 * are used in place; the code of the process is not changed.
 *
 * @param call the address of {@code syscall; ret}
 * @param restorer {@code mov $15,%rax; syscall}, to which signal handlers return
 */
record Gadgets(long call, Restorer restorer) {

  /** The code that signal handlers return to, from its first byte to the byte after its last. */
  record Restorer(long start, long end) {}

  /** The length of the instruction {@code syscall}. */
  static final int SYSCALL = 2;

  private static final byte[] CALL = {0x0f, 0x05, (byte) 0xc3};
  private static final byte[] RESTORER = {0x48, (byte) 0xc7, (byte) 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
  private static final byte[] SHORT_RESTORER = {(byte) 0xb8, 15, 0, 0, 0, 0x0f, 0x05};

  private static final int PIECE = 1 << 20;
  private static final int OVERLAP = 16;
  private static final long MOST = 512L << 20;

  /**
   * Searches the code of a process, beginning with the C library, which is never unloaded.
   *
   * @throws NativeCallException with {@code EPERM} if the memory may not be read
   */
  static Gadgets find(ProcessMemory memory, List<Mapping> mappings)
      throws UntraceableException, NativeCallException {
    List<Mapping> code =
        mappings.stream()
            .filter(each -> each.inode() != 0 && each.permissions().startsWith("r-x"))
            .sorted(Comparator.comparingInt(Gadgets::rank))
            .toList();
    OptionalLong call = OptionalLong.empty();
    Optional<Restorer> restorer = Optional.empty();
    long read = 0;
    for (Mapping mapping : code) {
      for (long next = mapping.start();
          next < mapping.end() && read < MOST;
          next += PIECE - OVERLAP) {
        long at = next;
        int bytes = (int) Math.min(PIECE, mapping.end() - at);
        byte[] piece = read(memory, at, bytes);
        read += bytes;
        call = call.isPresent() ? call : search(piece, at, CALL);
        restorer =
            restorer
                .or(() -> restorer(piece, at, RESTORER))
                .or(() -> restorer(piece, at, SHORT_RESTORER));
        if (call.isPresent() && restorer.isPresent()) {
          return new Gadgets(call.getAsLong(), restorer.get());
        }
      }
    }
    throw new UntraceableException(
        Reason.NO_INSTRUCTIONS,
        "no library of process %s has the instructions of a system call and of a return from a signal"
            .formatted(memory.task()));
  }

  private static int rank(Mapping mapping) {
    String file = mapping.name().substring(mapping.name().lastIndexOf('/') + 1);
    if (file.startsWith("libc.so") || file.startsWith("libc-") || file.startsWith("ld-musl")) {
      return 0;
    }
    return file.startsWith("libpthread") ? 1 : 2;
  }

  private static byte[] read(ProcessMemory memory, long at, int length) throws NativeCallException {
    try {
      return memory.read(at, length);
    } catch (NativeCallException e) {
      if (e.isNotPermitted()) {
        throw e;
      }
      return new byte[0]; // unmapped by now, or a hole in the file
    }
  }

  private static Optional<Restorer> restorer(byte[] text, long at, byte[] wanted) {
    OptionalLong found = search(text, at, wanted);
    return found.isPresent()
        ? Optional.of(new Restorer(found.getAsLong(), found.getAsLong() + wanted.length))
        : Optional.empty();
  }

  private static OptionalLong search(byte[] text, long at, byte[] wanted) {
    // One character is one byte.
    int found = new String(text, ISO_8859_1).indexOf(new String(wanted, ISO_8859_1));
    return found < 0 ? OptionalLong.empty() : OptionalLong.of(at + found);
  }

  /** Returns whether the instructions are still there. */
  boolean areIn(ProcessMemory memory) throws NativeCallException {
    int length = (int) (restorer.end() - restorer.start());
    return Arrays.equals(read(memory, call, CALL.length), CALL)
        && Arrays.equals(
            read(memory, restorer.start(), length),
            length == RESTORER.length ? RESTORER : SHORT_RESTORER);
  }

  /** Returns the address that seccomp filters see: the one after the instruction. */
  long behindCall() {
    return call + SYSCALL;
  }
}
