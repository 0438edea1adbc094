package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.remote.PassedDescriptor;
import dev.gpuprocess.internal.remote.RemoteCallException;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.RestoreThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.target.BoundedReading;
import dev.gpuprocess.internal.target.MappedLibrary;
import dev.gpuprocess.internal.target.TargetMemory;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Divides the copies of a checkpoint or restore among several threads, and gives the driver
 * prepared memory for its save areas.
 *
 * <p>libcuda copies with the {@code memcpy} that it imports, on its restore thread, 2 MiB at a
 * time, into memory that it maps. The hook replaces the addresses in the library's table of imports
 * ({@code hook.c}, {@link HookPages}). The page of the table is read-only since the program's
 * start, and is made writable while a thread of the process stores an address.
 *
 * <p>If this JVM is killed at any moment, the process continues. The threads of the hook end when
 * nothing has been copied for ten seconds. The code that stays copies as the C library does, also
 * in a child that was forked during the copy and in a process that was restored from an image.
 * {@link #removeFrom} removes it. For one thread.
 */
public final class DriverHook {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** Remote calls take milliseconds, except on an overloaded machine. */
  private static final Duration BORROWING = Duration.ofSeconds(10);

  private static final Duration ENDING = Duration.ofSeconds(5);

  private static final long STACK = 16 << 10;
  private static final long HUGE_PAGE = 2 << 20;

  private static final int NO_ACCESS = 0;
  private static final int READ_EXECUTE = 5;
  private static final int RESERVED = 0x4022; // MAP_NORESERVE
  private static final int SHARED_FIXED = 0x11;
  private static final int MADV_DONTFORK = 10;
  private static final int MADV_HUGEPAGE = 14;
  private static final int MADV_WIPEONFORK = 18;
  private static final int FUTEX_WAKE_PRIVATE = 129;
  private static final int PR_SET_NAME = 15;

  /**
   * CLONE_VM, FS, FILES, SIGHAND, THREAD and SYSVSEM, as for any thread; UNTRACED; PARENT_SETTID
   * and CHILD_CLEARTID, which show whether the thread has ended. The number is there before the
   * thread runs, so a controller that is killed between two calls leaves a complete record.
   */
  private static final long THREAD =
      0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x800000 | 0x100000 | 0x200000;

  private final ProcessIdentity process;
  private final HookPages pages;

  /**
   * The work of the driver with a hook.
   *
   * @param areas the save areas that the driver mapped
   * @param prepared how many bytes of them were prepared memory
   * @param copied how many bytes several threads copied
   */
  public record Work(List<AddressRange> areas, long prepared, long copied) {}

  private DriverHook(ProcessIdentity process, HookPages pages) {
    this.process = process;
    this.pages = pages;
  }

  /**
   * Sets the hook in a locked or checkpointed process.
   *
   * @param prepared memory for save areas, in files whose size is a multiple of 2 MiB; empty for
   *     none
   * @param threads how many threads copy beside the driver's own thread, at least 1
   * @param saves whether the driver is about to save, so that the recorded save areas are cleared
   * @throws UntraceableException if no call can be made in the process; it is unchanged
   * @throws IOException if a call failed, or libcuda is of an unknown kind; the process is
   *     unchanged
   */
  public static DriverHook set(
      ProcessIdentity process, List<NamelessFile> prepared, int threads, boolean saves)
      throws UntraceableException, IOException {
    Place place = Place.in(process);
    ProcessMemory memory = place.memory();
    if (place.pages().isPresent()) {
      DriverHook left = new DriverHook(process, place.pages().get());
      if (left.isSet()) {
        left.remove();
      }
    }
    int restoreThread = RestoreThread.of(process);
    int started = Math.min(threads, HookPages.MOST_THREADS);
    try {
      HookPages pages =
          RemoteCalls.borrow(
              process,
              BORROWING,
              thread ->
                  new Setting(thread, memory, restoreThread, started, saves)
                      .run(place.pages(), place.imports(), prepared));
      return new DriverHook(process, pages);
    } catch (UntraceableException | IOException | RuntimeException e) {
      removeFrom(process);
      throw e;
    }
  }

  /**
   * Removes a hook that another controller may have left.
   *
   * @param process in any state
   * @return whether the process is without a hook
   */
  public static boolean removeFrom(ProcessIdentity process) {
    try {
      Optional<DriverHook> left = in(process);
      if (left.isPresent() && left.get().isSet()) {
        left.get().remove();
      }
      return true;
    } catch (UntraceableException | IOException | RuntimeException e) {
      LOG.info("process {}: the hook of its libcuda stays", process.pid(), e);
      return false;
    }
  }

  private boolean isSet() throws IOException {
    return BoundedReading.run(process, this::isPointedOrMapped);
  }

  private boolean isPointedOrMapped() throws NativeCallException {
    for (ReplacedSlot each : pages.slots()) {
      if (each.points(pages.memory(), true)) {
        return true;
      }
    }
    return !pages.threads().isEmpty() || pages.region().isPresent() || pages.stacks().isPresent();
  }

  /** Finds the hook whose pages are in a process, set or not. */
  private static Optional<DriverHook> in(ProcessIdentity process) throws IOException {
    ProcessMemory memory = new ProcessMemory(ProcFs.anyThread(process.pid()));
    return BoundedReading.run(process, () -> HookPages.in(memory, ProcFs.memory(process.pid())))
        .map(pages -> new DriverHook(process, pages));
  }

  /**
   * The place for a hook in a process.
   *
   * @param imports of libcuda
   * @param pages of an earlier hook for the imports; empty for none
   */
  private record Place(
      ProcessMemory memory, List<MappedLibrary.Import> imports, Optional<HookPages> pages) {

    /**
     * Reads a process.
     *
     * @throws IOException if its libcuda is of an unknown kind
     */
    static Place in(ProcessIdentity process) throws IOException {
      return BoundedReading.run(process, () -> read(process));
    }

    private static Place read(ProcessIdentity process) throws IOException {
      ProcessMemory memory = new ProcessMemory(ProcFs.anyThread(process.pid()));
      List<Mapping> mappings = ProcFs.memory(process.pid());
      List<MappedLibrary.Import> imports = imports(process, mappings);
      Optional<HookPages> found = HookPages.in(memory, mappings);
      Optional<HookPages> ours = found.filter(pages -> pages.isFor(imports));
      if (ours.isEmpty() && (found.isPresent() || !areOfOtherLibraries(mappings, imports))) {
        throw new IOException(
            "libcuda of process %s has the hook of another tool".formatted(process.pid()));
      }
      return new Place(memory, imports, ours);
    }

    private static List<MappedLibrary.Import> imports(
        ProcessIdentity process, List<Mapping> mappings) throws IOException {
      List<DriverLibrary> libraries = DriverLibrary.in(TargetMemory.of(process.pid()), mappings);
      if (libraries.size() != 1) {
        throw new IOException(
            "process %s has %s copies of libcuda mapped"
                .formatted(process.pid(), libraries.size()));
      }
      DriverLibrary library = libraries.get(0);
      List<MappedLibrary.Import> imports = library.imports(Set.copyOf(HookPages.FUNCTIONS));
      long names = imports.stream().map(MappedLibrary.Import::name).distinct().count();
      boolean copies = imports.stream().anyMatch(each -> each.name().equals("memcpy"));
      boolean unresolved = imports.stream().anyMatch(each -> library.isCode(each.target()));
      if (!copies || unresolved || names != imports.size()) {
        throw new IOException(
            "libcuda of process %s does not import memcpy in the expected way"
                .formatted(process.pid()));
      }
      return imports;
    }

    /**
     * Returns whether the functions are in files; tools have their code in memory without a file.
     */
    private static boolean areOfOtherLibraries(
        List<Mapping> mappings, List<MappedLibrary.Import> imports) {
      return imports.stream()
          .allMatch(
              each ->
                  mappings.stream()
                      .anyMatch(
                          mapping ->
                              mapping.inode() != 0
                                  && mapping.permissions().contains("x")
                                  && mapping.contains(each.target())));
    }
  }

  /**
   * Returns why a hook cannot be set, as far as that is known without stopping a thread.
   *
   * @return empty if no reason is known
   */
  public static Optional<String> obstacle(ProcessIdentity process) {
    try {
      Place.in(process);
      RestoreThread.of(process);
      return Optional.empty();
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    }
  }

  /** Returns what the driver has done with the hook so far. */
  public Work work() throws IOException {
    return BoundedReading.run(process, pages::work);
  }

  /**
   * Removes the hook: the slots first, then the threads, then the rest of the memory.
   *
   * @throws UntraceableException if no call can be made in the process
   * @throws IOException if a call failed
   */
  public void remove() throws UntraceableException, IOException {
    Set<Integer> ending = BoundedReading.run(process, pages::threads);
    RemoteCalls.borrow(
        process,
        BORROWING,
        // A thread that is stopped for our calls cannot end before they are made.
        task -> ending.isEmpty() || !ending.contains(ProcFs.innermostPid(task).orElse(task)),
        thread -> {
          point(thread, pages, false);
          pages.arm(false);
          pages.stop();
          thread.call(SystemCall.FUTEX, pages.number(), FUTEX_WAKE_PRIVATE, Integer.MAX_VALUE, 0);
          if (!haveEnded()) {
            throw new IOException(
                "the threads of the hook in process %s have not ended".formatted(process.pid()));
          }
          // The last thread has unmapped the region, unless none was ever started.
          unmap(thread, pages.region());
          unmap(thread, pages.stacks());
          pages.forgetMemory();
          return true;
        });
  }

  private boolean haveEnded() throws NativeCallException {
    return Polling.until(ENDING, () -> pages.threads().isEmpty());
  }

  private static void point(RemoteThread thread, HookPages pages, boolean hooked)
      throws UntraceableException, IOException {
    List<Mapping> mappings = ProcFs.memory(thread.pid());
    ReplacedSlot.point(thread, mappings, pages.storeRoutine(), pages.slots(), hooked);
  }

  private static void unmap(RemoteThread thread, Optional<AddressRange> range)
      throws UntraceableException, IOException {
    if (range.isPresent()) {
      thread.call(SystemCall.MUNMAP, range.get().start(), range.get().bytes());
    }
  }

  /** The calls that set a hook, on a borrowed thread. A failure leaves nothing in the process. */
  private record Setting(
      RemoteThread thread, ProcessMemory memory, int restoreThread, int threads, boolean saves) {

    HookPages run(
        Optional<HookPages> there, List<MappedLibrary.Import> imports, List<NamelessFile> prepared)
        throws UntraceableException, IOException {
      Optional<AddressRange> region = region(prepared);
      HookPages pages = there.isPresent() ? there.get() : create(imports);
      requireAllowed(pages);
      RestoreThread.requireFiltersOf(restoreThread, thread);
      thread.call(SystemCall.MADVISE, pages.data(), HookPages.PAGE, MADV_WIPEONFORK);
      long start = thread.map(threads * STACK);
      AddressRange stacks = new AddressRange(start, start + threads * STACK);
      pages.prepare(
          ProcFs.innermostPid(restoreThread).orElse(restoreThread), region, stacks, threads, saves);
      // From here on the last thread of the hook unmaps the region.
      thread.cancelExitCall(); // of the stacks
      if (there.isEmpty()) {
        thread.cancelExitCall(); // of the pages
      }
      if (region.isPresent()) {
        thread.cancelExitCall();
      }
      start(pages, stacks.start());
      pages.arm(true);
      point(thread, pages, true);
      return pages;
    }

    /** Maps the prepared files, one after the other, at a huge page. */
    private Optional<AddressRange> region(List<NamelessFile> prepared)
        throws UntraceableException, IOException {
      long bytes = prepared.stream().mapToLong(NamelessFile::bytes).sum();
      if (bytes == 0) {
        return Optional.empty();
      }
      long all = thread.call(SystemCall.MMAP, 0, bytes + HUGE_PAGE, NO_ACCESS, RESERVED, -1, 0);
      long start = all + HUGE_PAGE - 1 & -HUGE_PAGE;
      if (start > all) {
        thread.call(SystemCall.MUNMAP, all, start - all);
      }
      if (start < all + HUGE_PAGE) {
        thread.call(SystemCall.MUNMAP, start + bytes, all + HUGE_PAGE - start);
      }
      thread.callAtExit(SystemCall.MUNMAP, start, bytes);
      long at = start;
      for (NamelessFile part : prepared) {
        try (PassedDescriptor passed = PassedDescriptor.pass(thread, part.descriptor())) {
          thread.call(
              SystemCall.MMAP,
              at,
              part.bytes(),
              Libc.PROT_READ_WRITE,
              SHARED_FIXED,
              passed.number(),
              0);
        }
        at += part.bytes();
      }
      // The driver will unmap this memory, and another process may use it later: children get none.
      thread.call(SystemCall.MADVISE, start, bytes, MADV_DONTFORK);
      adviseHugePages(start, bytes);
      return Optional.of(new AddressRange(start, start + bytes));
    }

    private void adviseHugePages(long start, long bytes)
        throws UntraceableException, NativeCallException {
      try {
        thread.call(SystemCall.MADVISE, start, bytes, MADV_HUGEPAGE);
      } catch (RemoteCallException e) {
        LOG.debug("the kernel has no huge pages for process {}", thread.pid(), e);
      }
    }

    private HookPages create(List<MappedLibrary.Import> imports)
        throws UntraceableException, IOException {
      long address = thread.map(HookPages.BYTES);
      memory.write(address, HookPages.code(imports));
      thread.call(SystemCall.MPROTECT, address, HookPages.PAGE, READ_EXECUTE);
      return HookPages.at(memory, address)
          .orElseThrow(() -> new IOException("the code of the hook is not of this version"));
    }

    /** Seccomp could kill the process for a call of the hook. */
    private void requireAllowed(HookPages pages) throws UntraceableException {
      long code = pages.address();
      thread.requireAt(code, SystemCall.GETTID);
      thread.requireAt(code, SystemCall.FUTEX, pages.number(), FUTEX_WAKE_PRIVATE);
      thread.requireAt(code, SystemCall.FUTEX, pages.number(), FUTEX_WAKE_PRIVATE - 1);
      thread.requireAt(code, SystemCall.PRCTL, PR_SET_NAME);
      thread.requireAt(code, SystemCall.MADVISE, 0, 0, MADV_HUGEPAGE);
      thread.requireAt(code, SystemCall.MUNMAP);
      thread.requireAt(code, SystemCall.EXIT);
    }

    private void start(HookPages pages, long stacks) throws UntraceableException, IOException {
      for (int i = 0; i < threads; i++) {
        // The call returns to the first address on the new stack.
        long top = stacks + (i + 1) * STACK - 64;
        memory.write(top, bytes(pages.worker()));
        long number = pages.threadNumber(i);
        try {
          thread.call(SystemCall.CLONE, THREAD, top, number, number, 0);
        } catch (RemoteCallException noMore) {
          pages.started(i);
          if (i == 0) {
            throw noMore;
          }
          LOG.debug("process {} may have only {} threads more", thread.pid(), i, noMore);
          return;
        }
      }
    }

    private static byte[] bytes(long value) {
      byte[] bytes = new byte[Long.BYTES];
      for (int i = 0; i < Long.BYTES; i++) {
        bytes[i] = (byte) (value >>> (i * Byte.SIZE));
      }
      return bytes;
    }
  }
}
