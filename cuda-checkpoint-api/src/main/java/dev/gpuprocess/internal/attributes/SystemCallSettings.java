package dev.gpuprocess.internal.attributes;

import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.MappingFlags;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.RemoteCallException;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.RemoteWork;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntUnaryOperator;

/**
 * The attributes of a process that only the process itself can set. A restored process makes the
 * system calls for them before it is resumed.
 *
 * @param pid the process, in its own pid namespace
 * @param mdwe the bits of {@code PR_GET_MDWE}
 * @param merges whether KSM may merge its memory
 * @param locks the flags of {@code mlockall} for memory that will be mapped
 * @param sealed its sealed mappings
 * @param bound its mappings with a NUMA policy of their own
 * @param personalities the execution domains of its threads, where that is not 0
 * @param policies the NUMA policies of its threads, where that is not the default
 */
public record SystemCallSettings(
    int pid,
    long mdwe,
    boolean merges,
    long locks,
    List<AddressRange> sealed,
    Map<AddressRange, NodePolicy> bound,
    Map<Integer, Long> personalities,
    Map<Integer, NodePolicy> policies) {

  static final long GET_MDWE = 66;
  private static final long SET_MDWE = 65;
  private static final long SET_MEMORY_MERGE = 67;
  private static final long PAGE = 4096;
  private static final long MCL_FUTURE = 2;
  private static final long MCL_ONFAULT = 4;
  private static final String LOCKED = "lo";
  private static final String ON_FAULT = "lf";
  private static final String NOTHING = "0 kB";
  private static final String WORD = "calls";
  private static final int HEX = 16;

  /** Mappings that are gone, as the process unmapped them after they were listed. */
  private static final List<Integer> GONE = List.of(12, 14);

  /**
   * Reads the settings of a process.
   *
   * @param seen what {@code /proc} shows of them
   */
  static SystemCallSettings of(ProcessIdentity process, VisibleAttributes seen, Duration limit)
      throws UntraceableException, IOException {
    int first = process.pid();
    Map<Integer, Long> personalities = new LinkedHashMap<>();
    Map<Integer, NodePolicy> policies = new LinkedHashMap<>();
    for (int task : ProcFs.threads(first)) {
      int inside = ProcFs.innermostPid(task).orElse(task);
      long personality = VisibleAttributes.personality(task);
      if (personality != 0) {
        personalities.put(inside, personality);
      }
      // Threads inherit the policy, and /proc shows that of the first thread.
      if (!seen.bound().isEmpty()) {
        onThread(process, task, limit, NodePolicy::of)
            .filter(policy -> !policy.isDefault())
            .ifPresent(policy -> policies.put(inside, policy));
      }
    }
    Map<AddressRange, NodePolicy> bound = new LinkedHashMap<>();
    AtomicLong locks = new AtomicLong();
    long mdwe =
        RemoteCalls.borrow(
            process,
            limit,
            thread -> {
              for (AddressRange range : seen.bound()) {
                NodePolicy policy = NodePolicy.of(thread, range.start());
                if (!policy.isDefault()) { // the mapping's own
                  bound.put(range, policy);
                }
              }
              locks.set(locksOfNewMemory(thread));
              return mdwe(thread);
            });
    return new SystemCallSettings(
        ProcFs.innermostPid(first).orElse(first),
        mdwe,
        seen.merges(),
        locks.get(),
        seen.sealed(),
        bound,
        personalities,
        policies);
  }

  private static long mdwe(RemoteThread thread) throws UntraceableException, NativeCallException {
    try {
      return thread.call(SystemCall.PRCTL, GET_MDWE, 0, 0, 0, 0);
    } catch (RemoteCallException beforeLinux63) {
      return 0;
    }
  }

  /** Maps memory and looks whether it is locked, as no file of {@code /proc} shows these flags. */
  private static long locksOfNewMemory(RemoteThread thread)
      throws UntraceableException, NativeCallException {
    long address;
    try {
      address = thread.map(PAGE);
    } catch (RemoteCallException noMoreMemory) {
      return 0;
    } catch (UntraceableException e) {
      if (e.reason() == UntraceableException.Reason.SECCOMP) {
        return 0;
      }
      throw e;
    }
    if (ProcFs.status(thread.pid()).getOrDefault("VmLck", NOTHING).equals(NOTHING)) {
      return 0;
    }
    AtomicLong locks = new AtomicLong();
    MappingFlags.visit(
        thread.pid(),
        each -> {
          if (!each.isOfKernel() && each.flags().contains(LOCKED)) {
            AddressRange range = each.mapping().addresses();
            if (range.start() <= address && address < range.end()) {
              locks.set(MCL_FUTURE | (each.flags().contains(ON_FAULT) ? MCL_ONFAULT : 0));
            }
          }
        });
    return locks.get();
  }

  /** Returns whether there is anything to set. */
  boolean isEmpty() {
    return mdwe == 0
        && !merges
        && locks == 0
        && sealed.isEmpty()
        && bound.isEmpty()
        && personalities.isEmpty()
        && policies.isEmpty();
  }

  /** Returns whether the process is less confined until {@link #putBack} has returned. */
  public boolean confines() {
    return mdwe != 0 || !sealed.isEmpty();
  }

  /**
   * Sets the execution domains and the NUMA policies of the threads, except of threads that cannot
   * be borrowed, such as those of the CUDA driver.
   *
   * @param process the restored process
   * @param tasks from the id of a thread in its own pid namespace to that here
   * @throws UntraceableException when a thread cannot make system calls
   * @throws IOException when a call failed
   */
  public void putThreadsBack(ProcessIdentity process, IntUnaryOperator tasks, Duration limit)
      throws UntraceableException, IOException {
    for (Map.Entry<Integer, Long> each : personalities.entrySet()) {
      Optional<Long> unused =
          onThread(
              process,
              tasks.applyAsInt(each.getKey()),
              limit,
              thread -> thread.call(SystemCall.PERSONALITY, each.getValue()));
    }
    for (Map.Entry<Integer, NodePolicy> each : policies.entrySet()) {
      Optional<Boolean> unused =
          onThread(
              process,
              tasks.applyAsInt(each.getKey()),
              limit,
              thread -> {
                each.getValue().set(thread);
                return true;
              });
    }
  }

  /**
   * Sets what holds for the whole process.
   *
   * @param process the restored process
   * @throws UntraceableException when no thread can make system calls
   * @throws IOException when a call failed
   */
  public void putBack(ProcessIdentity process, Duration limit)
      throws UntraceableException, IOException {
    boolean unused =
        RemoteCalls.borrow(
            process,
            limit,
            thread -> {
              putBack(thread);
              return true;
            });
  }

  /**
   * Returns empty for a thread that cannot be borrowed, such as one of the CUDA driver.
   *
   * @throws UntraceableException also if the first thread cannot be borrowed
   */
  private static <T> Optional<T> onThread(
      ProcessIdentity process, int task, Duration limit, RemoteWork<RemoteThread, T> work)
      throws UntraceableException, IOException {
    try {
      return Optional.of(RemoteCalls.borrow(process, limit, each -> each == task, work));
    } catch (UntraceableException e) {
      if (e.reason() == UntraceableException.Reason.NO_THREAD && task != process.pid()) {
        return Optional.empty();
      }
      throw e;
    }
  }

  private void putBack(RemoteThread thread)
      throws RemoteCallException, UntraceableException, NativeCallException {
    if (merges) {
      long unused = thread.call(SystemCall.PRCTL, SET_MEMORY_MERGE, 1, 0, 0, 0);
    }
    for (Map.Entry<AddressRange, NodePolicy> each : bound.entrySet()) {
      unlessGone(() -> each.getValue().bind(thread, each.getKey()));
    }
    for (AddressRange range : sealed) {
      long unused = thread.call(SystemCall.MSEAL, range.start(), range.bytes(), 0);
    }
    if (locks != 0) {
      long unused = thread.call(SystemCall.MLOCKALL, locks);
    }
    if (mdwe != 0) {
      long unused = thread.call(SystemCall.PRCTL, SET_MDWE, mdwe, 0, 0, 0);
    }
  }

  private interface Call {
    void make() throws RemoteCallException, UntraceableException, NativeCallException;
  }

  private static void unlessGone(Call call)
      throws RemoteCallException, UntraceableException, NativeCallException {
    try {
      call.make();
    } catch (RemoteCallException e) {
      if (!GONE.contains(e.errno())) {
        throw e;
      }
    }
  }

  /**
   * Parses the text of {@link #toString}.
   *
   * @return empty when the line is something else
   */
  public static Optional<SystemCallSettings> parse(String line) {
    List<String> words = Arrays.asList(line.split(" "));
    if (words.size() < 2 || !words.get(0).equals(WORD)) {
      return Optional.empty();
    }
    try {
      return Optional.of(parsed(words));
    } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
      return Optional.empty();
    }
  }

  private static SystemCallSettings parsed(List<String> words) {
    long mdwe = 0;
    boolean merges = false;
    long locks = 0;
    List<AddressRange> sealed = new ArrayList<>();
    Map<AddressRange, NodePolicy> bound = new LinkedHashMap<>();
    Map<Integer, Long> personalities = new LinkedHashMap<>();
    Map<Integer, NodePolicy> policies = new LinkedHashMap<>();
    for (String word : words.subList(2, words.size())) {
      String[] parts = word.split("=");
      switch (parts[0]) {
        case "mdwe" -> mdwe = Long.parseLong(parts[1]);
        case "merge" -> merges = true;
        case "lock" -> locks = Long.parseLong(parts[1]);
        case "seal" -> sealed.add(range(parts[1]));
        case "bind" -> bound.put(range(parts[1]), policy(parts[2]));
        case "personality" ->
            personalities.put(Integer.valueOf(parts[1]), Long.valueOf(parts[2], HEX));
        case "policy" -> policies.put(Integer.valueOf(parts[1]), policy(parts[2]));
        default -> throw new IllegalArgumentException(word);
      }
    }
    return new SystemCallSettings(
        Integer.parseInt(words.get(1)),
        mdwe,
        merges,
        locks,
        sealed,
        bound,
        personalities,
        policies);
  }

  private static AddressRange range(String text) {
    String[] ends = text.split("-");
    return new AddressRange(Long.parseLong(ends[0], HEX), Long.parseLong(ends[1], HEX));
  }

  private static NodePolicy policy(String text) {
    return NodePolicy.parse(text).orElseThrow(IllegalArgumentException::new);
  }

  private static String text(AddressRange range) {
    return Long.toHexString(range.start()) + "-" + Long.toHexString(range.end());
  }

  /** Returns one line for an image. */
  @Override
  public String toString() {
    StringJoiner line = new StringJoiner(" ");
    line.add(WORD).add(Integer.toString(pid));
    if (mdwe != 0) {
      line.add("mdwe=" + mdwe);
    }
    if (merges) {
      line.add("merge");
    }
    if (locks != 0) {
      line.add("lock=" + locks);
    }
    sealed.forEach(range -> line.add("seal=" + text(range)));
    bound.forEach((range, policy) -> line.add("bind=" + text(range) + "=" + policy));
    personalities.forEach(
        (task, value) -> line.add("personality=" + task + "=" + Long.toHexString(value)));
    policies.forEach((task, policy) -> line.add("policy=" + task + "=" + policy));
    return line.toString();
  }
}
