package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.remote.RemoteCallException;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.StoreRoutine;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.remote.UntraceableException.Reason;
import dev.gpuprocess.internal.target.BoundedReading;
import dev.gpuprocess.internal.target.HeldReadingException;
import dev.gpuprocess.internal.target.TargetMemory;
import dev.gpuprocess.internal.target.UnknownKindException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Blocks the CUDA calls of a locked process that the driver's lock does not block, until the
 * process is unlocked.
 *
 * <p>Each function of libcuda calls its implementation through a pointer in the library's data. The
 * gate changes the pointers of some functions to routines on a page of its own ({@link GatePage}).
 * There a thread waits for the driver's own lock, so an unlock by any controller lets it continue.
 * No code is changed and the gate needs no controller: it keeps working if this JVM is killed, or
 * if the process is dumped and restored. The next unlock by this library removes it.
 */
public final class LockGate {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /**
   * The calls that kill a checkpointed process, or return an error that no program expects. All
   * others that were tried wait for the lock, or do no harm (driver 580.159, {@code
   * docs/dev/gpu-runs}).
   */
  private static final List<String> FUNCTIONS =
      List.of(
          ("cuStreamQuery cuStreamQuery_ptsz cuStreamSynchronize cuStreamSynchronize_ptsz"
                  + " cuEventQuery cuEventSynchronize cuEventElapsedTime cuEventElapsedTime_v2"
                  + " cuCtxSynchronize cuCtxSynchronize_v2 cuMemGetInfo cuMemGetInfo_v2"
                  + " cuDeviceGetName cuIpcGetMemHandle"
                  // these wait for the GPU before they wait at the lock
                  + " cuModuleUnload cuMemPoolDestroy cuMemAllocAsync cuMemAllocAsync_ptsz"
                  + " cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz")
              .split(" "));

  /**
   * Reasons for which a gate cannot be set now and perhaps later. All others are lasting; a process
   * that has ended needs no gate.
   */
  private static final Set<Reason> PASSING =
      EnumSet.of(
          Reason.TRACED, Reason.STOPPED, Reason.NO_INSTRUCTIONS, Reason.NO_THREAD, Reason.TIME);

  private static final Set<Integer> NOT_PERMITTED = Set.of(1, 13); // EPERM, EACCES

  /** Remote calls take milliseconds, except on an overloaded machine. */
  private static final Duration BORROWING = Duration.ofSeconds(10);

  private static final Duration LEAVING = Duration.ofSeconds(10);

  private static final int READ_EXECUTE = 5;

  private static final String UNTRACEABLE =
      "process %s may not be traced: run as root, or give this JVM CAP_SYS_PTRACE";

  private static final String UNKNOWN =
      "libcuda calls its implementations in an unknown way, or through the hooks of another tool";

  private final ProcessIdentity process;
  private final ProcessMemory memory;

  private LockGate(ProcessIdentity process) {
    this.process = process;
    this.memory = new ProcessMemory(ProcFs.anyThread(process.pid()));
  }

  /**
   * The result of setting a gate.
   *
   * @param isSet whether the polls of the process wait, or it has no libcuda
   * @param note what was done, or why nothing was done, for an operator; empty if the process has
   *     no libcuda
   * @param danger why a checkpoint may kill the process now and not a moment later; empty if it is
   *     safe, or will not be safer later
   */
  public record Result(boolean isSet, String note, String danger) {}

  /**
   * Sets the gate in a locked process, and waits for the calls that were entered before. Takes a
   * few milliseconds. If the gate cannot be set, the process is not changed.
   *
   * @param allowed whether a process that cannot be given a gate now is checkpointed all the same
   */
  public static Result set(ProcessIdentity process, boolean allowed) {
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
      LOG.info("process {}: its polls do not wait for the unlock", process.pid(), e);
      String why =
          e instanceof NativeCallException failed && failed.isNotPermitted()
              ? UNTRACEABLE.formatted(process.pid())
              : String.valueOf(e.getMessage());
      return allowed || isLasting(e)
          ? new Result(false, "polls do not wait: " + why, "")
          : new Result(false, "", why);
    }
  }

  /**
   * Returns why a process that polls the driver cannot be given a gate. Nothing in the process is
   * changed: the calls that set a gate are tried with a page that is unmapped again. Threads are
   * looked at only if a gate cannot be set.
   *
   * @return the reason with its cure, for the middle of a sentence; empty if a gate can be set, or
   *     the process does not seem to poll, or cannot be looked at
   */
  public static Optional<String> obstacle(ProcessIdentity process) {
    try {
      return new LockGate(process).obstacle();
    } catch (HeldReadingException e) {
      return Optional.of(String.valueOf(e.getMessage()));
    } catch (IOException | ProcessUnreadableException e) {
      LOG.debug("whether process {} polls is not known", process.pid(), e);
      return Optional.empty();
    }
  }

  /**
   * A libcuda of the process, and what of a gate is there.
   *
   * @param slots of the functions to gate; empty if they are of an unknown kind
   * @param page of an earlier gate; empty for none
   * @param isUntouched whether all slots point to the library itself
   * @param isSet whether all slots point to the page
   */
  private record Found(
      DriverLibrary library,
      List<DriverLibrary.Slot> slots,
      OptionalLong cuInit,
      Optional<GatePage> page,
      boolean isUntouched,
      boolean isSet) {

    boolean isKnown() {
      return page.isPresent() || (!slots.isEmpty() && cuInit.isPresent() && isUntouched);
    }
  }

  private List<Mapping> mappings() throws IOException {
    return BoundedReading.run(process, () -> ProcFs.memory(process.pid()));
  }

  private List<Found> find(List<Mapping> mappings) throws IOException {
    return BoundedReading.run(
        process,
        () -> {
          List<Found> all = new ArrayList<>();
          for (DriverLibrary each : DriverLibrary.in(TargetMemory.of(process.pid()), mappings)) {
            List<DriverLibrary.Slot> slots = slots(each);
            Optional<GatePage> page = page(mappings, slots);
            all.add(
                new Found(
                    each,
                    slots,
                    each.function("cuInit"),
                    page,
                    areUntouched(each, slots),
                    page.isPresent() && isPointed(page.get(), true)));
          }
          return all;
        });
  }

  private Optional<String> obstacle() throws IOException {
    List<Mapping> mappings = mappings();
    List<Found> libraries = find(mappings);
    if (libraries.isEmpty()) {
      return Optional.empty();
    }
    try {
      if (mayBeSet(libraries)) {
        return Optional.empty();
      }
    } catch (UntraceableException e) {
      if (e.reason() == Reason.TRACED) { // its running threads cannot be looked at
        return Optional.of(String.valueOf(e.getMessage()));
      }
      if (!isLasting(e) || e.reason() == Reason.GONE) {
        return Optional.empty();
      }
      String cure = e.reason() == Reason.SECCOMP ? ": start it without that filter" : "";
      return seen(libraries, e.getMessage() + cure);
    } catch (RemoteCallException e) {
      return isLasting(e)
          ? seen(
              libraries,
              "it may not map code, by PR_SET_MDWE, MemoryDenyWriteExecute of systemd or a policy of the machine: start it without that")
          : Optional.empty();
    }
    return seen(libraries, UNKNOWN + ": end that tool, or use a driver that this library knows");
  }

  private Optional<String> seen(List<Found> libraries, String why) throws IOException {
    List<DriverLibrary> looked = libraries.stream().map(Found::library).toList();
    boolean areSeen =
        BoundedReading.run(
            process, () -> new PollingThreads(process, memory, looked, FUNCTIONS).areSeen());
    return areSeen ? Optional.of(why) : Optional.empty();
  }

  /** Tries it; returns false if the slots are of an unknown kind. */
  private boolean mayBeSet(List<Found> libraries) throws UntraceableException, IOException {
    for (Found each : libraries) {
      if (!each.isKnown()) {
        return false;
      }
      if (!each.isSet()) {
        long unused =
            RemoteCalls.borrow(
                process,
                BORROWING,
                thread ->
                    each.page().isPresent()
                        ? 0
                        : map(thread, each.slots(), each.cuInit().getAsLong()).address());
      }
    }
    return true;
  }

  /**
   * Loads the classes of a gate, which takes tenths of a second, by what a gate does in a process
   * that needs none. Its page stays in that process.
   */
  public static void prepare(ProcessIdentity idle) {
    try {
      LockGate gate = new LockGate(idle);
      List<Mapping> mappings = ProcFs.memory(idle.pid());
      GatePage page =
          RemoteCalls.borrow(
              idle, BORROWING, thread -> gate.create(thread, mappings, List.of(), 0));
      List<Integer> unused =
          new CallsUnderWay(idle, gate.memory, List.of(page), code -> false)
              .await(mappings, LEAVING);
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      LOG.debug("the classes of a gate are loaded later, as process {} has none", idle.pid(), e);
    }
  }

  /** Returns whether the failure will recur, unlike a lack of descriptors. */
  private static boolean isLasting(Exception e) {
    if (e instanceof UntraceableException untraceable) {
      return !PASSING.contains(untraceable.reason());
    }
    if (e instanceof RemoteCallException refused) {
      return NOT_PERMITTED.contains(refused.errno());
    }
    return e instanceof UnknownKindException
        || e.getCause() instanceof AccessDeniedException
        || (e instanceof NativeCallException failed && failed.isNotPermitted());
  }

  private Result set() throws UntraceableException, IOException {
    List<Mapping> mappings = mappings();
    List<Found> libraries = find(mappings);
    List<GatePage> pages = new ArrayList<>();
    for (Found each : libraries) {
      if (!each.isKnown()) {
        return new Result(false, "polls do not wait: " + UNKNOWN, "");
      }
      if (each.page().isPresent()) {
        if (!each.isSet()) {
          point(each.page().get(), mappings, true);
        }
        pages.add(each.page().get());
      } else {
        pages.add(
            RemoteCalls.borrow(
                process,
                BORROWING,
                thread -> create(thread, mappings, each.slots(), each.cuInit().getAsLong())));
      }
    }
    if (pages.isEmpty()) {
      return new Result(true, "", "");
    }
    CallsUnderWay calls =
        new CallsUnderWay(
            process,
            memory,
            pages,
            word -> libraries.stream().anyMatch(each -> each.library().isCode(word)));
    List<Integer> inside =
        BoundedReading.run(
            process, LEAVING.plus(BoundedReading.LIMIT), () -> calls.await(mappings, LEAVING));
    return new Result(
        true,
        "polls wait for the unlock",
        inside.isEmpty() ? "" : "its threads " + inside + " do not leave their CUDA calls");
  }

  /**
   * Removes the gate from a process that was unlocked. The page of 4 KiB stays for the next gate,
   * since a thread may just be leaving it. If this fails, the gate stays and costs each of its
   * calls less than a microsecond.
   */
  public static void remove(ProcessIdentity process) {
    try {
      new LockGate(process).remove();
    } catch (UntraceableException
        | IOException
        | ProcessUnreadableException
        | OutOfMemoryError e) { // the process runs already, so the verb must not fail
      LOG.info("process {}: the gate for its polls stays", process.pid(), e);
    }
  }

  private void remove() throws UntraceableException, IOException {
    List<Mapping> mappings = mappings();
    for (Found each : find(mappings)) {
      if (!each.isUntouched() && each.page().isPresent()) {
        point(each.page().get(), mappings, false);
      }
    }
  }

  private static boolean areUntouched(DriverLibrary library, List<DriverLibrary.Slot> slots) {
    return slots.stream().allMatch(slot -> library.isCode(slot.target()));
  }

  /** Returns the slots of the functions that the library exports; empty if one has no slot. */
  private static List<DriverLibrary.Slot> slots(DriverLibrary library) throws IOException {
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

  /** Finds the page of an earlier gate, in use or not. */
  private Optional<GatePage> page(List<Mapping> mappings, List<DriverLibrary.Slot> slots) {
    Stream<Long> pointed = slots.stream().map(slot -> slot.target() & -GatePage.BYTES).distinct();
    return Stream.concat(pointed, HookPages.codePages(mappings).stream())
        .flatMap(page -> GatePage.at(memory, page).stream())
        .filter(page -> page.isFor(slots))
        .findFirst();
  }

  private GatePage create(
      RemoteThread thread, List<Mapping> mappings, List<DriverLibrary.Slot> slots, long cuInit)
      throws UntraceableException, IOException {
    GatePage page = map(thread, slots, cuInit);
    thread.cancelExitCall();
    ReplacedSlot.point(thread, mappings, page.storeRoutine(), page.slots(), true);
    return page;
  }

  /** Maps the page. If this JVM is killed before a slot points to it, the thread unmaps it. */
  private GatePage map(RemoteThread thread, List<DriverLibrary.Slot> slots, long cuInit)
      throws UntraceableException, IOException {
    long address = thread.map(GatePage.BYTES);
    memory.write(address, GatePage.content(address, slots, cuInit));
    thread.call(SystemCall.MPROTECT, address, GatePage.BYTES, READ_EXECUTE);
    GatePage page = GatePage.at(memory, address).orElseThrow(this::changed);
    thread.requireAt(StoreRoutine.behindCall(page.storeRoutine()), SystemCall.GETPID);
    return page;
  }

  private IOException changed() {
    return new IOException("process %s changed the page of its gate".formatted(process.pid()));
  }

  private void point(GatePage page, List<Mapping> mappings, boolean gated)
      throws UntraceableException, IOException {
    boolean unused =
        RemoteCalls.borrow(
            process,
            BORROWING,
            thread -> {
              ReplacedSlot.point(thread, mappings, page.storeRoutine(), page.slots(), gated);
              return gated;
            });
  }

  private boolean isPointed(GatePage page, boolean gated) throws NativeCallException {
    for (ReplacedSlot each : page.slots()) {
      if (!each.points(memory, gated)) {
        return false;
      }
    }
    return true;
  }
}
