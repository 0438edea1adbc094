package dev.gpuprocess.internal.memory;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.RemoteCallException;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.Untraceable;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Holds back the calls of a locked process that the driver's lock does not keep out, until the
 * process is unlocked.
 *
 * <p>Each function of libcuda calls its implementation through a pointer in the library's data. The
 * gate points the pointers of the functions concerned to a page of its own (see {@link GatePage}).
 * A thread that calls one of them waits at the driver's own lock, so that it goes on with the
 * unlock, whoever makes it. No byte of code is changed and nothing runs in this JVM meanwhile: when
 * this JVM is killed, or the process is dumped and restored, the gate stays and goes on working.
 * The next unlock by this library takes it away.
 */
public final class LockGate {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * The calls that were found to kill the process, or to return an error that no program expects,
   * while it is checkpointed; all others that were tried wait at the lock, or do no harm (driver
   * 580.159, {@code docs/gpu-runs}).
   */
  private static final List<String> FUNCTIONS =
      List.of(
          "cuStreamQuery",
          "cuStreamQuery_ptsz",
          "cuStreamSynchronize",
          "cuStreamSynchronize_ptsz",
          "cuEventQuery",
          "cuEventSynchronize",
          "cuEventElapsedTime",
          "cuEventElapsedTime_v2",
          "cuCtxSynchronize",
          "cuCtxSynchronize_v2",
          "cuMemGetInfo",
          "cuMemGetInfo_v2",
          "cuDeviceGetName");

  /** Reasons for which a gate can never be set in a process; a process that is gone needs none. */
  private static final Set<Untraceable.Reason> LASTING =
      EnumSet.of(
          Untraceable.Reason.MACHINE,
          Untraceable.Reason.OURSELVES,
          Untraceable.Reason.GONE,
          Untraceable.Reason.BITS_32,
          Untraceable.Reason.SHADOW_STACK,
          Untraceable.Reason.NOT_PERMITTED,
          Untraceable.Reason.SECCOMP,
          Untraceable.Reason.DISPATCHED,
          Untraceable.Reason.REGISTERS);

  private static final Set<Integer> NOT_PERMITTED = Set.of(1, 13); // EPERM, EACCES

  /** Milliseconds, unless the machine has far more to do than processors. */
  private static final Duration BORROWING = Duration.ofSeconds(10);

  private static final Duration LEAVING = Duration.ofSeconds(10);

  private static final int READ_WRITE = 3;
  private static final int READ_EXECUTE = 5;
  private static final int PRIVATE_ANONYMOUS = 0x22;

  private final ProcessIdentity process;
  private final ProcessMemory memory;

  private LockGate(ProcessIdentity process) {
    this.process = process;
    this.memory = new ProcessMemory(ProcFs.anyThread(process.pid()));
  }

  /**
   * How a gate was set.
   *
   * @param note what was done, or why nothing was, for an operator; empty when the process has no
   *     libcuda
   * @param danger why a checkpoint may kill the process now and not a moment later; empty when it
   *     is safe, or as safe as it will be
   */
  public record Result(String note, String danger) {}

  /**
   * Sets the gate in a locked process, and waits for the calls that were entered before. Costs a
   * few milliseconds. Where it cannot be set the process is left as it was.
   *
   * @param process locked
   * @return what was done
   */
  public static Result set(ProcessIdentity process) {
    long began = System.nanoTime();
    try {
      Result result = new LockGate(process).set();
      LOG.debug(
          "process {}: gate set in {} us: {}",
          process.pid(),
          (System.nanoTime() - began) / 1000,
          result);
      return result;
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      LOG.info("process {}: its polls are not held back", process.pid(), e);
      return isLasting(e)
          ? new Result("polls are not held back: " + e.getMessage(), "")
          : new Result("", String.valueOf(e.getMessage()));
    }
  }

  /** Whether it will be no better a moment later, as it will when descriptors are short. */
  private static boolean isLasting(Exception e) {
    if (e instanceof UntraceableException untraceable) {
      return LASTING.contains(untraceable.why().reason());
    }
    if (e instanceof RemoteCallException refused) {
      return NOT_PERMITTED.contains(refused.errno());
    }
    return e.getCause() instanceof AccessDeniedException
        || (e instanceof NativeCallException failed && failed.isNotPermitted());
  }

  private Result set() throws UntraceableException, IOException {
    List<Mapping> mappings = ProcFs.memory(process.pid());
    List<DriverLibrary> libraries = DriverLibrary.in(memory, mappings);
    List<GatePage> pages = new ArrayList<>();
    for (DriverLibrary library : libraries) {
      List<DriverLibrary.Slot> slots = slots(library);
      OptionalLong cuInit = library.function("cuInit");
      Optional<GatePage> there = page(mappings, slots);
      if (there.isPresent()) {
        point(there.get(), true);
        pages.add(there.get());
      } else if (slots.isEmpty() || cuInit.isEmpty() || !areUntouched(library, slots)) {
        return new Result(
            "polls are not held back: libcuda calls its implementations in an unknown way, or through the hooks of another tool",
            "");
      } else {
        pages.add(
            RemoteCalls.borrow(
                process, BORROWING, thread -> create(thread, slots, cuInit.getAsLong())));
      }
    }
    if (pages.isEmpty()) {
      return new Result("", "");
    }
    List<Integer> inside = new CallsUnderWay(process, memory, pages).await(LEAVING);
    return new Result(
        "polls wait for the unlock",
        inside.isEmpty()
            ? ""
            : "its threads " + inside + " do not leave the CUDA calls they are in");
  }

  /**
   * Takes the gate away from a process that was unlocked. The page stays, 4 KiB, for the next time:
   * a thread may just be leaving it. Where this fails the gate stays, which costs each of the calls
   * concerned less than a microsecond.
   *
   * @param process not locked
   */
  public static void remove(ProcessIdentity process) {
    try {
      new LockGate(process).remove();
    } catch (UntraceableException
        | IOException
        | ProcessUnreadableException
        | OutOfMemoryError e) { // the process runs already, and the verb shall not fail
      LOG.info("process {}: the gate for its polls stays", process.pid(), e);
    }
  }

  private void remove() throws UntraceableException, IOException {
    List<Mapping> mappings = ProcFs.memory(process.pid());
    for (DriverLibrary library : DriverLibrary.in(memory, mappings)) {
      List<DriverLibrary.Slot> slots = slots(library);
      if (!areUntouched(library, slots)) {
        Optional<GatePage> page = page(mappings, slots);
        if (page.isPresent()) {
          point(page.get(), false);
        }
      }
    }
  }

  private static boolean areUntouched(DriverLibrary library, List<DriverLibrary.Slot> slots) {
    return slots.stream().allMatch(slot -> library.isCode(slot.target()));
  }

  /** Those of the functions that the library exports; empty when one of them has no slot. */
  private static List<DriverLibrary.Slot> slots(DriverLibrary library) throws NativeCallException {
    List<DriverLibrary.Slot> slots = new ArrayList<>();
    for (String name : FUNCTIONS) {
      OptionalLong function = library.function(name);
      if (function.isPresent()) {
        Optional<DriverLibrary.Slot> slot = library.slot(function.getAsLong());
        if (slot.isEmpty()) {
          return List.of();
        }
        slots.add(slot.get());
      }
    }
    return slots;
  }

  /** The page that an earlier gate has left, in use or not. */
  private Optional<GatePage> page(List<Mapping> mappings, List<DriverLibrary.Slot> slots) {
    return HookPages.codePages(mappings).stream()
        .flatMap(page -> GatePage.at(memory, page).stream())
        .filter(page -> page.isFor(slots))
        .findFirst();
  }

  private GatePage create(RemoteThread thread, List<DriverLibrary.Slot> slots, long cuInit)
      throws UntraceableException, IOException {
    long address =
        thread.call(SystemCall.MMAP, 0, GatePage.BYTES, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
    // If this JVM is killed before a slot points to the page, the thread unmaps it.
    thread.onTheWayHome(SystemCall.MUNMAP, address, GatePage.BYTES);
    memory.write(address, GatePage.content(address, slots, cuInit));
    thread.call(SystemCall.MPROTECT, address, GatePage.BYTES, READ_EXECUTE);
    GatePage page = GatePage.at(memory, address).orElseThrow();
    thread.notOnTheWayHome();
    point(thread, page, true);
    return page;
  }

  private void point(GatePage page, boolean gated) throws UntraceableException, IOException {
    boolean unused =
        RemoteCalls.borrow(
            process,
            BORROWING,
            thread -> {
              point(thread, page, gated);
              return true;
            });
  }

  /** Each pointer is stored at once by a thread of the process, whatever its others do. */
  private void point(RemoteThread thread, GatePage page, boolean gated)
      throws UntraceableException, IOException {
    for (GatePage.Entry entry : page.entries()) {
      long from = gated ? entry.original() : entry.routine();
      if (memory.readLong(entry.slot()) == from) {
        thread.store(page.storeRoutine(), entry.slot(), gated ? entry.routine() : entry.original());
      }
    }
  }
}
