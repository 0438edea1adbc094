package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.StoreRoutine;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

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
   * changed. A page of slots that is read-only is made writable for a moment.
   *
   * @param mappings of the process
   * @param storeRoutine the address of a {@link StoreRoutine} in the process
   */
  static void point(
      RemoteThread thread,
      List<Mapping> mappings,
      long storeRoutine,
      List<ReplacedSlot> slots,
      boolean toRoutine)
      throws UntraceableException, IOException {
    List<StoreRoutine.Word> writable = new ArrayList<>();
    Map<Long, List<StoreRoutine.Word>> readOnly = new TreeMap<>();
    for (ReplacedSlot each : slots) {
      if (each.points(thread.memory(), !toRoutine)) {
        (each.isWritable(mappings)
                ? writable
                : readOnly.computeIfAbsent(each.address & -PAGE, page -> new ArrayList<>()))
            .add(each.word(toRoutine));
      }
    }
    if (!writable.isEmpty()) {
      thread.store(storeRoutine, writable);
    }
    for (Map.Entry<Long, List<StoreRoutine.Word>> page : readOnly.entrySet()) {
      // If this JVM or the process dies here, the page is read-only afterwards.
      thread.callAtExit(SystemCall.MPROTECT, page.getKey(), PAGE, READ);
      thread.call(SystemCall.MPROTECT, page.getKey(), PAGE, Libc.PROT_READ_WRITE);
      thread.store(storeRoutine, page.getValue());
      thread.callNow();
    }
  }

  private boolean isWritable(List<Mapping> mappings) {
    return mappings.stream()
        .filter(each -> each.permissions().startsWith("rw"))
        .anyMatch(each -> each.contains(address));
  }

  private StoreRoutine.Word word(boolean toRoutine) {
    return toRoutine
        ? new StoreRoutine.Word(address, original, routine)
        : new StoreRoutine.Word(address, routine, original);
  }
}
