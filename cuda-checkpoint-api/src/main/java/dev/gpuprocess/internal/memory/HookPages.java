package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.remote.StoreRoutine;
import dev.gpuprocess.internal.target.MappedLibrary;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * The two pages of a hook in a process: code, which begins with the functions that the library
 * called before, and data. {@code hook.h} has the same offsets. The pages describe themselves, so
 * any controller can remove the hook, also from a process that was restored from an image. They
 * stay when the hook is removed, since a thread may just be leaving them, and the next hook uses
 * them.
 *
 * @param memory of the process
 * @param address of the code
 * @param slots the pointers that lead to the code while the hook is set
 * @param worker the address where a thread begins
 * @param storeRoutine the address of a {@link StoreRoutine}
 */
record HookPages(
    ProcessMemory memory, long address, List<ReplacedSlot> slots, long worker, long storeRoutine) {

  private static final String RESOURCE =
      "/dev/gpuprocess/internal/native/linux-x86_64/driver-hook.bin";

  /** The functions that the hook replaces, in the order of its tables. */
  static final List<String> FUNCTIONS = List.of("memcpy", "memmove", "mmap", "mmap64");

  static final int PAGE = 4096;

  /** Both pages. */
  static final int BYTES = 2 * PAGE;

  static final int MOST_THREADS = 64;

  private static final long MAGIC = 0x326b_6f6f_4855_5047L; // "GPUHook2"
  private static final int ORIGINALS = 8;
  private static final int SLOTS = 40;
  private static final int ENTRIES = 72;
  private static final int WORKER = 88;
  private static final int STORE = 92;
  private static final int HEAD = 96;

  /** The time after which a thread without work ends. The driver never pauses so long in a copy. */
  private static final int MOST_IDLE_SECONDS = 10;

  private static final int ARMED = 0;
  private static final int RESTORE_THREAD = 4;
  private static final int STOP = 8;
  private static final int PARTICIPANTS = 12;
  private static final int NEXT = 16;
  private static final int END = 24;
  private static final int AREAS = 32;
  private static final int IDLE_SECONDS = 36;
  private static final int AREA = 40;
  private static final int AREA_BYTES = 24;
  private static final int MOST_AREAS = 8;
  private static final int COPIES = 232;
  private static final int COPIED = 240;
  private static final int STACKS = 248;
  private static final int STACK_BYTES = 256;
  private static final int THREADS = 264;
  private static final int NUMBER = 704;
  private static final int RUNNING = 768;
  private static final int DATA_BYTES = 832;

  /** The kernel may merge a page of code with its neighbours. */
  private static final long MOST_CODE_BYTES = 64 * PAGE;

  /** A process may have code in so many pages that reading them would take minutes. */
  private static final int MOST_CODE_PAGES = 1 << 14;

  /** Returns the content of the first page, for imports of a library. */
  static byte[] code(List<MappedLibrary.Import> imports) throws IOException {
    ByteBuffer code = ByteBuffer.wrap(resource()).order(ByteOrder.LITTLE_ENDIAN);
    for (MappedLibrary.Import each : imports) {
      int index = FUNCTIONS.indexOf(each.name());
      code.putLong(ORIGINALS + index * Long.BYTES, each.target());
      code.putLong(SLOTS + index * Long.BYTES, each.slot());
    }
    code.put(code.getInt(STORE), StoreRoutine.code());
    return code.array();
  }

  private static byte[] resource() throws IOException {
    try (InputStream in = HookPages.class.getResourceAsStream(RESOURCE)) {
      if (in == null) {
        throw new FileNotFoundException("this jar was built without " + RESOURCE);
      }
      return in.readAllBytes();
    }
  }

  /** Finds the pages of a hook in a process, set or not. */
  static Optional<HookPages> in(ProcessMemory memory, List<Mapping> mappings) {
    return codePages(mappings).stream().flatMap(page -> at(memory, page).stream()).findFirst();
  }

  /**
   * Returns the pages of code without a file, which may be of a gate or a hook.
   *
   * @return at most 16,384; a process with more has no hook that is found
   */
  static List<Long> codePages(List<Mapping> mappings) {
    List<Long> pages = new ArrayList<>();
    for (Mapping each : mappings) {
      if (each.isUnnamedMemory()
          && each.permissions().equals("r-xp")
          && each.addresses().bytes() <= MOST_CODE_BYTES) {
        for (long page = each.start(); page < each.end(); page += PAGE) {
          if (pages.size() == MOST_CODE_PAGES) {
            return pages;
          }
          pages.add(page);
        }
      }
    }
    return pages;
  }

  static Optional<HookPages> at(ProcessMemory memory, long address) {
    ByteBuffer head;
    try {
      head = ByteBuffer.wrap(memory.read(address, HEAD)).order(ByteOrder.LITTLE_ENDIAN);
    } catch (NativeCallException unreadable) {
      return Optional.empty();
    }
    if (head.getLong(0) != MAGIC) {
      return Optional.empty();
    }
    List<ReplacedSlot> slots = new ArrayList<>();
    for (int i = 0; i < FUNCTIONS.size(); i++) {
      long slot = head.getLong(SLOTS + i * Long.BYTES);
      if (slot != 0) {
        slots.add(
            new ReplacedSlot(
                slot,
                head.getLong(ORIGINALS + i * Long.BYTES),
                address + head.getInt(ENTRIES + i * Integer.BYTES)));
      }
    }
    return Optional.of(
        new HookPages(
            memory,
            address,
            List.copyOf(slots),
            address + head.getInt(WORKER),
            address + head.getInt(STORE)));
  }

  /** Returns whether the pages were made for these imports. */
  boolean isFor(List<MappedLibrary.Import> imports) {
    return imports.size() == slots.size()
        && imports.stream()
            .allMatch(
                each -> slots.stream().anyMatch(slot -> slot.isAt(each.slot(), each.target())));
  }

  /** Returns the address of the data page. */
  long data() {
    return address + PAGE;
  }

  /** Returns the address of the word at which the threads wait. */
  long number() {
    return data() + NUMBER;
  }

  /**
   * Returns the address of a thread's number, which the kernel clears when the thread has ended.
   */
  long threadNumber(int thread) {
    return data() + THREADS + (long) thread * Integer.BYTES;
  }

  /**
   * Writes the data of a hook that is about to be set.
   *
   * @param restoreThread the driver's thread, by its id in its own pid namespace
   * @param region memory for save areas; empty for none
   * @param stacks of the threads
   * @param threads how many will be started
   * @param saves whether the recorded save areas of the last checkpoint are cleared
   */
  void prepare(
      int restoreThread,
      Optional<AddressRange> region,
      AddressRange stacks,
      int threads,
      boolean saves)
      throws NativeCallException {
    ByteBuffer data = ByteBuffer.allocate(DATA_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    data.putInt(RESTORE_THREAD, restoreThread)
        .putInt(PARTICIPANTS, threads + 1)
        .putLong(NEXT, region.map(AddressRange::start).orElse(0L))
        .putLong(END, region.map(AddressRange::end).orElse(0L))
        .putInt(IDLE_SECONDS, MOST_IDLE_SECONDS)
        .putLong(STACKS, stacks.start())
        .putLong(STACK_BYTES, stacks.bytes())
        .putInt(RUNNING, threads);
    if (!saves) {
      ByteBuffer before = read();
      data.putInt(AREAS, before.getInt(AREAS));
      data.position(AREA);
      data.put(before.slice(AREA, MOST_AREAS * AREA_BYTES));
    }
    memory.write(data(), data.array());
  }

  /** Begins or ends the division of the driver's copies. */
  void arm(boolean armed) throws NativeCallException {
    writeInt(ARMED, armed ? 1 : 0);
  }

  /** Records that fewer threads were started than planned. */
  void started(int threads) throws NativeCallException {
    writeInt(RUNNING, threads);
    writeInt(PARTICIPANTS, threads + 1);
  }

  /** Requests the end of the threads. The caller must wake those that wait at {@link #number}. */
  void stop() throws NativeCallException {
    writeInt(STOP, 1);
    writeInt(NUMBER, (int) memory.readLong(number()) + 1);
  }

  private void writeInt(int offset, int value) throws NativeCallException {
    memory.write(
        data() + offset,
        ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array());
  }

  /** Returns the numbers of the hook's threads in the process's pid namespace. */
  Set<Integer> threads() throws NativeCallException {
    ByteBuffer data = read();
    Set<Integer> numbers = new HashSet<>();
    for (int i = 0; i < MOST_THREADS; i++) {
      int number = data.getInt(THREADS + i * Integer.BYTES);
      if (number != 0) {
        numbers.add(number);
      }
    }
    return numbers;
  }

  /** Returns the rest of the memory for save areas; empty for nothing. */
  Optional<AddressRange> region() throws NativeCallException {
    ByteBuffer data = read();
    return range(data.getLong(NEXT), data.getLong(END));
  }

  /** Returns the stacks of the threads; empty for none. */
  Optional<AddressRange> stacks() throws NativeCallException {
    ByteBuffer data = read();
    long start = data.getLong(STACKS);
    return range(start, start + data.getLong(STACK_BYTES));
  }

  /** The process may have written anything into its page. */
  private static Optional<AddressRange> range(long start, long end) {
    return start > 0 && end > start ? Optional.of(new AddressRange(start, end)) : Optional.empty();
  }

  /** Records that the memory was unmapped. */
  void forgetMemory() throws NativeCallException {
    memory.write(data() + NEXT, new byte[Long.BYTES]);
    memory.write(data() + STACKS, new byte[2 * Long.BYTES]);
  }

  /** Returns what the hook has done so far. */
  DriverHook.Work work() throws NativeCallException {
    ByteBuffer data = read();
    List<AddressRange> areas = new ArrayList<>();
    long prepared = 0;
    for (int i = 0; i < Math.min(data.getInt(AREAS), MOST_AREAS); i++) {
      int at = AREA + i * AREA_BYTES;
      long start = data.getLong(at);
      long bytes = (data.getLong(at + 8) + PAGE - 1) & -PAGE;
      range(start, start + bytes).ifPresent(areas::add);
      prepared += data.getLong(at + 16) != 0 ? bytes : 0;
    }
    return new DriverHook.Work(
        areas, prepared, data.getLong(COPIES) == 0 ? 0 : data.getLong(COPIED));
  }

  private ByteBuffer read() throws NativeCallException {
    return ByteBuffer.wrap(memory.read(data(), DATA_BYTES)).order(ByteOrder.LITTLE_ENDIAN);
  }
}
