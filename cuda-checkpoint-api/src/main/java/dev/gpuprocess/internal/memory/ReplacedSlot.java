package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import java.io.IOException;
import java.util.List;

/**
 * A pointer of libcuda to a function, for which this library has a routine of its own.
 *
 * @param address of the pointer, a multiple of 8
 * @param original the function
 * @param routine the routine that replaces the function
 */
record ReplacedSlot(long address, long original, long routine) {

  private static final int PAGE = 4096;
  private static final int READ = 1;
  private static final int READ_WRITE = 3;

  /** Returns whether this is the slot at an address, with what it points to. */
  boolean isAt(long place, long target) {
    return address == place && (target == original || target == routine);
  }

  /** Returns whether the slot points to the routine, or to the function if it should. */
  boolean points(ProcessMemory memory, boolean toRoutine) throws NativeCallException {
    return memory.readLong(address) == (toRoutine ? routine : original);
  }

  /**
   * Changes slots from the function to the routine, or back. A slot with another content is not
   * changed. A thread of the process stores each pointer by one instruction, since other threads
   * may read it at any moment.
   *
   * @param mappings of the process
   * @param storeRoutine the address of {@code mov %r9,(%r8); syscall; ret} in the process
   */
  static void point(
      RemoteThread thread,
      List<Mapping> mappings,
      long storeRoutine,
      List<ReplacedSlot> slots,
      boolean toRoutine)
      throws UntraceableException, IOException {
    for (ReplacedSlot each : slots) {
      if (each.points(thread.memory(), !toRoutine)) {
        each.store(thread, mappings, storeRoutine, toRoutine ? each.routine : each.original);
      }
    }
  }

  private void store(RemoteThread thread, List<Mapping> mappings, long storeRoutine, long value)
      throws UntraceableException, IOException {
    boolean isWritable =
        mappings.stream()
            .filter(each -> each.permissions().startsWith("rw"))
            .anyMatch(each -> each.start() <= address && address < each.end());
    if (isWritable) {
      thread.store(storeRoutine, address, value);
      return;
    }
    long page = address & -PAGE;
    // If this JVM or the process dies here, the page is read-only afterwards.
    thread.callAtExit(SystemCall.MPROTECT, page, PAGE, READ);
    thread.call(SystemCall.MPROTECT, page, PAGE, READ_WRITE);
    thread.store(storeRoutine, address, value);
    thread.callNow();
  }
}
