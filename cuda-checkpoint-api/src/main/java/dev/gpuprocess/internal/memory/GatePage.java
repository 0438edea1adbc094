package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.remote.StoreRoutine;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * The page of code of a gate, with one routine for each gated function. The routine calls {@code
 * cuInit(0)} and then jumps to the function's implementation. In an initialized process {@code
 * cuInit} does nothing, but waits while the driver's lock is held. The page describes itself, so
 * any controller can remove the gate, also from a process that was restored from an image.
 *
 * @param entries one for each gated function
 */
record GatePage(long address, List<Entry> entries) {

  /** The size of the page. */
  static final int BYTES = 4096;

  private static final long MAGIC = 0x3265_7461_4755_5047L; // "GPUGate2"
  private static final int TABLE = 16;
  private static final int RECORD = 32;
  private static final int CODE = 1024;
  private static final int STORE = 960;
  private static final int ALIGNMENT = 16;
  private static final int MOST = (STORE - TABLE) / RECORD;

  /** Saves the argument registers, aligns the stack, and sets the argument of cuInit to 0. */
  private static final byte[] ENTER =
      HexFormat.of()
          .parseHex(
              "5756525141504151" // push rdi, rsi, rdx, rcx, r8, r9
                  + "4883ec18" // sub $24,%rsp
                  + "31ff"); // xor %edi,%edi

  /** The bytes that {@link #ENTER} and the call push, below the return address of the function. */
  private static final int DEPTH = 6 * Long.BYTES + 24 + Long.BYTES;

  /**
   * Clears the return address of the call to cuInit, which would look like a wait if it were on the
   * stack of a later call, and restores the argument registers.
   */
  private static final byte[] LEAVE =
      HexFormat.of()
          .parseHex(
              "48c74424f800000000" // movq $0,-8(%rsp)
                  + "4883c418" // add $24,%rsp
                  + "41594158595a5e5f"); // pop r9, r8, rcx, rdx, rsi, rdi

  private static final byte[] MOVE_TO_RAX = {0x48, (byte) 0xb8};
  private static final byte[] CALL_RAX = {(byte) 0xff, (byte) 0xd0};
  private static final byte[] JUMP_RAX = {(byte) 0xff, (byte) 0xe0};

  /**
   * A gated function.
   *
   * @param slot the library's pointer to its implementation
   * @param returnAddress the return address of a call through the slot
   * @param waitAddress the return address of the call to {@code cuInit}
   */
  record Entry(ReplacedSlot slot, long returnAddress, long waitAddress) {

    private boolean isFor(DriverLibrary.Slot other) {
      return slot.isAt(other.address(), other.target());
    }
  }

  /** Returns whether the page was made for these slots. */
  boolean isFor(List<DriverLibrary.Slot> slots) {
    return entries.size() == slots.size()
        && IntStream.range(0, entries.size()).allMatch(i -> entries.get(i).isFor(slots.get(i)));
  }

  List<ReplacedSlot> slots() {
    return entries.stream().map(Entry::slot).toList();
  }

  /** Returns the address of a {@link StoreRoutine}. */
  long storeRoutine() {
    return address + STORE;
  }

  /** Returns where a call that waits in the gate has its {@link Entry#waitAddress}. */
  static long waitAddressBelow(long returnAddressAt) {
    return returnAddressAt - DEPTH;
  }

  /**
   * Returns the content of a page.
   *
   * @param address where the page will be
   * @param slots of the functions to gate
   * @param cuInit the address of that function
   */
  static byte[] content(long address, List<DriverLibrary.Slot> slots, long cuInit) {
    if (slots.size() > MOST) {
      throw new IllegalArgumentException("at most " + MOST + " functions fit in a page");
    }
    ByteBuffer page = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
    page.putLong(0, MAGIC).putInt(8, slots.size());
    page.put(STORE, StoreRoutine.code());
    page.position(CODE);
    for (int i = 0; i < slots.size(); i++) {
      DriverLibrary.Slot slot = slots.get(i);
      int routine = page.position();
      page.put(ENTER).put(MOVE_TO_RAX).putLong(cuInit).put(CALL_RAX);
      int behindCall = page.position();
      page.put(LEAVE).put(MOVE_TO_RAX).putLong(slot.target()).put(JUMP_RAX);
      int at = TABLE + i * RECORD;
      page.putLong(at, slot.address())
          .putLong(at + 8, slot.target())
          .putLong(at + 16, slot.returnAddress())
          .putInt(at + 24, routine)
          .putInt(at + 28, behindCall);
      page.position((page.position() + ALIGNMENT - 1) & -ALIGNMENT);
    }
    return page.array();
  }

  /**
   * Reads the page at an address.
   *
   * @return empty if it is not such a page
   */
  static Optional<GatePage> at(ProcessMemory memory, long address) {
    ByteBuffer page;
    try {
      page = ByteBuffer.wrap(memory.read(address, BYTES)).order(ByteOrder.LITTLE_ENDIAN);
    } catch (NativeCallException unreadable) {
      return Optional.empty();
    }
    int count = page.getInt(8);
    if (page.getLong(0) != MAGIC || count < 0 || count > MOST) {
      return Optional.empty();
    }
    List<Entry> entries = new ArrayList<>();
    for (int at = TABLE; at < TABLE + count * RECORD; at += RECORD) {
      entries.add(
          new Entry(
              new ReplacedSlot(
                  page.getLong(at), page.getLong(at + 8), address + page.getInt(at + 24)),
              page.getLong(at + 16),
              address + page.getInt(at + 28)));
    }
    return Optional.of(new GatePage(address, List.copyOf(entries)));
  }
}
