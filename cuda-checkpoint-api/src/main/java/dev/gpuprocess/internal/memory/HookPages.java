package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.Mapping;
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
 * The two pages of a hook in a process: code, which begins with what the library called before, and
 * data. {@code hook.h} has the same offsets. The pages describe themselves, so that any controller
 * can take a hook away, also in a process restored from an image. They stay when it is taken away,
 * as a thread may just be leaving them, and are used again.
 *
 * @param address of the code
 * @param entries the slots that lead to it while the hook is set
 * @param worker where a thread begins
 * @param storeRoutine the address of {@code mov %r9,(%r8); syscall; ret}
 */
record HookPages(long address, List<Entry> entries, long worker, long storeRoutine) {

  private static final String RESOURCE =
      "/dev/gpuprocess/internal/native/linux-x86_64/driver-hook.bin";

  /** What the hook replaces, in the order of its tables. */
  static final List<String> FUNCTIONS = List.of("memcpy", "memmove", "mmap", "mmap64");

  static final int PAGE = 4096;

  /** Both pages. */
  static final int BYTES = 2 * PAGE;

  static final int MOST_THREADS = 64;

  /** In place of the number of a thread that has not begun to run. */
  static final int NO_NUMBER_YET = -1;

  private static final long MAGIC = 0x316b_6f6f_4855_5047L; // "GPUHook1"
  private static final int ORIGINALS = 8;
  private static final int SLOTS = 40;
  private static final int ENTRIES = 72;
  private static final int WORKER = 88;
  private static final int STORE = 92;
  private static final int HEAD = 96;

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

  /** Also of a code page, which the kernel may join with its neighbours. */
  private static final long MOST_CODE_BYTES = 64 * PAGE;

  /**
   * A replaced function.
   *
   * @param slot where the library keeps its address
   * @param original that address
   * @param routine what the slot holds while the hook is set
   */
  record Entry(long slot, long original, long routine) {}

  /** The code for slots of a library, to be written to the first page. */
  static byte[] code(List<DriverLibrary.Import> imports) throws IOException {
    ByteBuffer code = ByteBuffer.wrap(resource()).order(ByteOrder.LITTLE_ENDIAN);
    for (DriverLibrary.Import each : imports) {
      int index = FUNCTIONS.indexOf(each.name());
      code.putLong(ORIGINALS + index * Long.BYTES, each.target());
      code.putLong(SLOTS + index * Long.BYTES, each.slot());
    }
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

  /**
   * Finds the pages of a hook in a process, set or not.
   *
   * @return empty when there are none
   */
  static Optional<HookPages> in(ProcessMemory memory, List<Mapping> mappings) {
    return codePages(mappings).stream().flatMap(page -> at(memory, page).stream()).findFirst();
  }

  /** The pages of code that have no file, where a gate or a hook can be. */
  static List<Long> codePages(List<Mapping> mappings) {
    List<Long> pages = new ArrayList<>();
    for (Mapping each : mappings) {
      if (each.isUnnamedMemory()
          && each.permissions().equals("r-xp")
          && each.addresses().bytes() <= MOST_CODE_BYTES) {
        for (long page = each.start(); page < each.end(); page += PAGE) {
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
    List<Entry> entries = new ArrayList<>();
    for (int i = 0; i < FUNCTIONS.size(); i++) {
      long slot = head.getLong(SLOTS + i * Long.BYTES);
      if (slot != 0) {
        entries.add(
            new Entry(
                slot,
                head.getLong(ORIGINALS + i * Long.BYTES),
                address + head.getInt(ENTRIES + i * Integer.BYTES)));
      }
    }
    return Optional.of(
        new HookPages(
            address,
            List.copyOf(entries),
            address + head.getInt(WORKER),
            address + head.getInt(STORE)));
  }

  /** Whether they were made for these slots, with what those hold while no hook is set. */
  boolean isFor(List<DriverLibrary.Import> imports) {
    return imports.size() == entries.size()
        && imports.stream()
            .allMatch(
                each ->
                    entries.stream()
                        .anyMatch(
                            entry ->
                                entry.slot() == each.slot()
                                    && (entry.original() == each.target()
                                        || entry.routine() == each.target())));
  }

  /** The address of the data page. */
  long data() {
    return address + PAGE;
  }

  /** Where the threads wait for a change. */
  long number() {
    return data() + NUMBER;
  }

  /** Where the kernel clears the number of a thread when it has ended. */
  long threadNumber(int thread) {
    return data() + THREADS + (long) thread * Integer.BYTES;
  }

  /**
   * Writes data for a hook that is about to be set.
   *
   * @param memory of the process
   * @param restoreThread the driver's thread, as its own pid namespace numbers it
   * @param region memory for save areas; empty for none
   * @param stacks what the threads will run on; empty for no threads
   * @param threads how many will be started
   * @param idleSeconds after which they end by themselves
   * @param saves whether it is to be forgotten where the driver has saved memory before
   */
  void prepare(
      ProcessMemory memory,
      int restoreThread,
      Optional<AddressRange> region,
      Optional<AddressRange> stacks,
      int threads,
      int idleSeconds,
      boolean saves)
      throws NativeCallException {
    ByteBuffer data = ByteBuffer.allocate(DATA_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    data.putInt(RESTORE_THREAD, restoreThread)
        .putInt(PARTICIPANTS, threads + 1)
        .putLong(NEXT, region.map(AddressRange::start).orElse(0L))
        .putLong(END, region.map(AddressRange::end).orElse(0L))
        .putInt(IDLE_SECONDS, idleSeconds)
        .putLong(STACKS, stacks.map(AddressRange::start).orElse(0L))
        .putLong(STACK_BYTES, stacks.map(AddressRange::bytes).orElse(0L))
        .putInt(RUNNING, threads);
    for (int i = 0; i < threads; i++) {
      data.putInt(THREADS + i * Integer.BYTES, NO_NUMBER_YET); // the kernel writes it
    }
    if (!saves) {
      ByteBuffer before = read(memory);
      data.putInt(AREAS, before.getInt(AREAS));
      data.position(AREA);
      data.put(before.slice(AREA, MOST_AREAS * AREA_BYTES));
    }
    memory.write(data(), data.array());
  }

  /** Has the driver's copies divided, or not any more. */
  void arm(ProcessMemory memory, boolean armed) throws NativeCallException {
    writeInt(memory, ARMED, armed ? 1 : 0);
  }

  /** Those of the threads that could not be started are not waited for. */
  void started(ProcessMemory memory, int threads, int planned) throws NativeCallException {
    for (int i = threads; i < planned; i++) {
      writeInt(memory, THREADS + i * Integer.BYTES, 0);
    }
    writeInt(memory, RUNNING, threads);
    writeInt(memory, PARTICIPANTS, threads + 1);
  }

  /** Tells the threads to end. The caller must wake those that wait at {@link #number}. */
  void stop(ProcessMemory memory) throws NativeCallException {
    writeInt(memory, STOP, 1);
    writeInt(memory, NUMBER, (int) memory.readLong(number()) + 1);
  }

  private void writeInt(ProcessMemory memory, int offset, int value) throws NativeCallException {
    memory.write(
        data() + offset,
        ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array());
  }

  /**
   * Returns the numbers that the running threads of the hook have in the process's pid namespace.
   * {@link #NO_NUMBER_YET} stands for threads that have not begun to run.
   */
  Set<Integer> threads(ProcessMemory memory) throws NativeCallException {
    ByteBuffer data = read(memory);
    Set<Integer> numbers = new HashSet<>();
    for (int i = 0; i < MOST_THREADS; i++) {
      int number = data.getInt(THREADS + i * Integer.BYTES);
      if (number != 0) {
        numbers.add(number);
      }
    }
    return numbers;
  }

  /** What is left of the memory for save areas; empty for nothing. */
  Optional<AddressRange> region(ProcessMemory memory) throws NativeCallException {
    ByteBuffer data = read(memory);
    return range(data.getLong(NEXT), data.getLong(END));
  }

  /** What the threads run on; empty for nothing. */
  Optional<AddressRange> stacks(ProcessMemory memory) throws NativeCallException {
    ByteBuffer data = read(memory);
    long start = data.getLong(STACKS);
    return range(start, start + data.getLong(STACK_BYTES));
  }

  /** The process may write what it likes into its page. */
  private static Optional<AddressRange> range(long start, long end) {
    return start > 0 && end > start ? Optional.of(new AddressRange(start, end)) : Optional.empty();
  }

  /** Forgets memory that was unmapped. */
  void forgetMemory(ProcessMemory memory) throws NativeCallException {
    memory.write(data() + NEXT, new byte[Long.BYTES]);
    memory.write(data() + STACKS, new byte[2 * Long.BYTES]);
  }

  /** What was done so far. */
  DriverHook.Work work(ProcessMemory memory) throws NativeCallException {
    ByteBuffer data = read(memory);
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

  private ByteBuffer read(ProcessMemory memory) throws NativeCallException {
    return ByteBuffer.wrap(memory.read(data(), DATA_BYTES)).order(ByteOrder.LITTLE_ENDIAN);
  }
}
