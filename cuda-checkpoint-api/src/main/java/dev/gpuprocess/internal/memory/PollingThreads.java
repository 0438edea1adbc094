package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.internal.remote.ThreadStacks;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks for threads that are inside a call that the driver's lock does not block. The code of the
 * calls is known by their names alone, so a libcuda whose functions call their implementations in
 * an unknown way can be looked at too.
 */
final class PollingThreads {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** A thread that polls without a pause is nearly always inside. */
  private static final Duration LOOKING = Duration.ofMillis(200);

  private static final Duration STOPPING = Duration.ofSeconds(2);

  private static final int STACK_BYTES = 1 << 16;

  /** The C library, whose functions libcuda calls. */
  private static final Pattern C_LIBRARY =
      Pattern.compile(
          ".*/(libc|libpthread|ld-[^/]*|libc\\.musl-[^/]*|libc-[^/]*)\\.so[^/]*|\\[vdso\\]");

  private final ProcessIdentity process;
  private final StackReader stacks;
  private final List<DriverLibrary> libraries;
  private final List<DriverLibrary.Code> calls = new ArrayList<>();

  /**
   * Creates a look at a process.
   *
   * @param functions the names of the calls
   */
  PollingThreads(
      ProcessIdentity process,
      ProcessMemory memory,
      List<DriverLibrary> libraries,
      List<String> functions)
      throws IOException {
    this.process = process;
    this.stacks = new StackReader(memory);
    this.libraries = libraries;
    for (DriverLibrary library : libraries) {
      for (String name : functions) {
        library.code(name).ifPresent(calls::add);
      }
    }
  }

  /** Looks a few times; returns whether a thread was seen inside such a call. */
  boolean areSeen() {
    return Polling.until(LOOKING, this::look);
  }

  private boolean look() {
    List<Mapping> mappings = ProcFs.memory(process.pid());
    List<Integer> running = new ArrayList<>();
    for (int thread : ProcFs.threads(process.pid())) {
      String[] words = ProcFs.read(thread, "syscall").orElse("").strip().split(" ");
      if (words.length < 3) {
        running.add(thread);
      } else if (isInside(StackReader.pointer(words), mappings)) {
        return true;
      }
    }
    return !running.isEmpty() && isOneInside(running, mappings);
  }

  private boolean isOneInside(List<Integer> running, List<Mapping> mappings) {
    AtomicBoolean found = new AtomicBoolean(); // the list has threads that were not stopped, too
    try {
      List<Integer> unused =
          ThreadStacks.matching(
              process,
              running,
              STOPPING,
              (thread, pointer) -> {
                boolean isInside = isInside(pointer, mappings);
                found.compareAndSet(false, isInside);
                return isInside;
              });
    } catch (UntraceableException | IOException | ProcessUnreadableException e) {
      LOG.debug("the running threads of process {} were not looked at", process.pid(), e);
    }
    return found.get();
  }

  private boolean isInside(long pointer, List<Mapping> mappings) {
    Optional<long[]> words = stacks.words(pointer, mappings, STACK_BYTES);
    if (words.isEmpty() || !isInDriver(words.get(), mappings)) {
      return false;
    }
    for (long word : words.get()) {
      for (DriverLibrary.Code call : calls) {
        if (call.isReturnedTo(word)) {
          return true;
        }
      }
    }
    return false;
  }

  /**
   * Returns whether the innermost code on the stack, but for that of the C library, is libcuda's.
   * Old return addresses, which a thread outside has on its stack too, are further up.
   */
  private boolean isInDriver(long[] words, List<Mapping> mappings) {
    for (long word : words) {
      Optional<Mapping> code =
          mappings.stream()
              .filter(each -> each.contains(word) && each.permissions().contains("x"))
              .findFirst();
      if (code.isPresent() && !C_LIBRARY.matcher(code.get().name()).matches()) {
        return libraries.stream().anyMatch(library -> library.isCode(word));
      }
    }
    return false;
  }
}
