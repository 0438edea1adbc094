package dev.gpuprocess.internal.inherited;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.PassedDescriptor;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.StoppedThreads;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Takes from a forked child what it inherited of the GPU's device files, by system calls that one
 * of its threads makes: each descriptor becomes one of {@code /dev/null}, so that its number stays
 * taken, and each mapping becomes inaccessible memory, so that its addresses stay taken.
 *
 * <p>All threads of the child are held meanwhile: none can close a descriptor, or unmap memory,
 * after we have looked and before its place is taken, when it might be somebody else's already. If
 * this JVM is killed at any moment the child goes on with a part of it dropped and nothing else
 * changed. That does it no harm, since CUDA is of no use in it; each single change is one system
 * call, and what is left can be dropped later.
 */
public final class GpuRelease {

  private static final int NO_ACCESS = 0;
  private static final int PRIVATE_FIXED_ANONYMOUS_NORESERVE = 0x4032;
  private static final int O_CLOEXEC = 0x80000;
  private static final Pattern FLAGS = Pattern.compile("(?m)^flags:\\s*([0-7]{1,12})$");

  private GpuRelease() {}

  /**
   * Does it to one child.
   *
   * @param child who
   * @param inheritance checked again when the child is held
   * @param limit how long holding its threads, and each system call, may take
   * @return what it has lost
   * @throws NotReleasableException when it cannot be done, or not all of it, or the child has ended
   * @throws dev.gpuprocess.error.ProcessUnreadableException when it may not be looked at
   */
  public static Released of(ProcessIdentity child, Inheritance inheritance, Duration limit)
      throws NotReleasableException {
    int nothing = NullDevice.open(child.pid());
    try {
      return StoppedThreads.hold(child, limit, work(child, inheritance, nothing));
    } catch (NotReleasableException e) {
      throw e;
    } catch (UntraceableException | IOException e) {
      throw new NotReleasableException(String.valueOf(e.getMessage()), e);
    } finally {
      Descriptors.close(nothing);
    }
  }

  /**
   * What is done while its threads are held.
   *
   * @param nothing a descriptor of this JVM, of the child's {@code /dev/null}
   */
  public static StoppedThreads.Work<Released> work(
      ProcessIdentity child, Inheritance inheritance, int nothing) {
    return threads -> {
      if (threads.firstThreadRuns()) {
        throw new NotReleasableException(
            "it was started by this JVM, or given to it, which cannot hold its first thread");
      }
      GpuHandles held = GpuHandles.of(child.pid(), () -> {});
      if (held.isEmpty()) {
        return Released.NOTHING;
      }
      inheritance.require(child, held);
      Map<Integer, Integer> descriptors = flags(child.pid(), held.descriptors());
      return threads.borrow(
          thread -> {
            requireAllowed(thread, descriptors, held.mappings());
            try (PassedDescriptor passed = PassedDescriptor.pass(thread, nothing)) {
              drop(thread, descriptors, passed.number());
              drop(thread, held.mappings());
            }
            return new Released(1, descriptors.size(), held.mappings().size());
          });
    };
  }

  /** Whether each is closed when the child executes a program, which stays so. */
  private static Map<Integer, Integer> flags(int pid, List<OpenFile> files)
      throws NotReleasableException {
    Map<Integer, Integer> flags = new LinkedHashMap<>();
    for (OpenFile file : files) {
      Matcher told = FLAGS.matcher(ProcFs.read(pid, "fdinfo/" + file.number()).orElse(""));
      if (!told.find()) {
        throw new NotReleasableException(
            "the flags of its descriptor %s are not known".formatted(file.number()));
      }
      flags.put(file.number(), (int) Long.parseLong(told.group(1), 8) & O_CLOEXEC);
    }
    return flags;
  }

  /** All or nothing, as far as it is seccomp's to say. */
  private static void requireAllowed(
      RemoteThread thread, Map<Integer, Integer> descriptors, List<Mapping> mappings)
      throws UntraceableException {
    for (Map.Entry<Integer, Integer> each : descriptors.entrySet()) {
      thread.require(SystemCall.DUP3, 0, each.getKey(), each.getValue());
    }
    for (Mapping each : mappings) {
      thread.require(SystemCall.MMAP, inaccessible(each));
    }
  }

  private static void drop(RemoteThread thread, Map<Integer, Integer> descriptors, int nothing)
      throws UntraceableException, IOException {
    for (Map.Entry<Integer, Integer> each : descriptors.entrySet()) {
      long unused = thread.call(SystemCall.DUP3, nothing, each.getKey(), each.getValue());
    }
  }

  private static void drop(RemoteThread thread, List<Mapping> mappings)
      throws UntraceableException, IOException {
    for (Mapping each : mappings) {
      long unused = thread.call(SystemCall.MMAP, inaccessible(each));
    }
  }

  private static long[] inaccessible(Mapping place) {
    return new long[] {
      place.start(),
      place.end() - place.start(),
      NO_ACCESS,
      PRIVATE_FIXED_ANONYMOUS_NORESERVE,
      -1,
      0
    };
  }
}
