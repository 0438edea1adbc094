package dev.gpuprocess.internal.inherited;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.remote.PassedDescriptor;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.RemoteWork;
import dev.gpuprocess.internal.remote.StoppedThreads;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/**
 * Releases the GPU device files that a forked child inherited, by remote calls. Each descriptor
 * becomes one of {@code /dev/null}, so that its number stays in use, and each mapping becomes
 * inaccessible memory, so that its addresses stay in use.
 *
 * <p>All threads of the child are stopped during this, so that none of them closes or unmaps a
 * device file after it was found, and gets another file or mapping in its place. If this JVM is
 * killed at any moment, the child continues with some of the device files released and nothing else
 * changed. The rest can be released later. The child can do without them, since it cannot use CUDA.
 */
public final class GpuRelease {

  private static final int MEMORY_MAJOR = 1;
  private static final int NULL_MINOR = 3;
  private static final int NO_ACCESS = 0;
  private static final int PRIVATE_FIXED_ANONYMOUS_NORESERVE = 0x4032;
  private static final int O_CLOEXEC = 0x80000;

  private GpuRelease() {}

  /**
   * Releases the device files of a child.
   *
   * @param inheritance checked again while the child is stopped
   * @param limit the time for stopping the threads, and for each system call
   * @throws NotReleasableException if not all device files can be released, or the child has ended
   * @throws dev.gpuprocess.internal.proc.ProcessUnreadableException if the child may not be read
   */
  public static Released of(ProcessIdentity child, Inheritance inheritance, Duration limit)
      throws NotReleasableException {
    int nullDevice = openNullDevice(child.pid());
    try {
      return StoppedThreads.during(child, limit, work(child, inheritance, nullDevice));
    } catch (NotReleasableException e) {
      throw e;
    } catch (UntraceableException | IOException e) {
      throw new NotReleasableException(String.valueOf(e.getMessage()), e);
    } finally {
      Descriptors.close(nullDevice);
    }
  }

  /**
   * Opens {@code /dev/null} as another process sees it. CRIU dumps a descriptor of it by the mount
   * that it was opened on, which is in the namespace of that process.
   *
   * @return a descriptor of this JVM
   * @throws NotReleasableException if the process has no such device
   */
  private static int openNullDevice(int pid) throws NotReleasableException {
    Path path = ProcFs.file(pid, "root", "dev", "null");
    try {
      int held = Descriptors.hold(path); // harmless, whatever the file is
      try {
        Path same = ProcFs.descriptor(held);
        if (FileNode.at(same).filter(GpuRelease::isNullDevice).isEmpty()) {
          throw new NotReleasableException("its /dev/null is another file");
        }
        return Libc.open(same, Libc.O_RDWR);
      } finally {
        Descriptors.close(held);
      }
    } catch (FileSystemException e) {
      throw new NotReleasableException("its /dev/null cannot be opened: " + e.getMessage(), e);
    }
  }

  private static boolean isNullDevice(FileNode node) {
    return node.isCharacterDevice() && node.major() == MEMORY_MAJOR && node.minor() == NULL_MINOR;
  }

  /**
   * Returns the work while the threads of a child are stopped.
   *
   * @param nullDevice a descriptor of this JVM, of the child's {@code /dev/null}
   */
  public static RemoteWork<StoppedThreads, Released> work(
      ProcessIdentity child, Inheritance inheritance, int nullDevice) {
    return threads -> {
      if (threads.firstThreadRuns()) {
        throw new NotReleasableException(
            "this JVM started it as a child, and cannot stop the first thread of its children");
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
            try (PassedDescriptor passed = PassedDescriptor.pass(thread, nullDevice)) {
              drop(thread, descriptors, passed.number());
              drop(thread, held.mappings());
            }
            return new Released(1, descriptors.size(), held.mappings().size());
          });
    };
  }

  /** Returns the close-on-exec flag of each descriptor, which is kept. */
  private static Map<Integer, Integer> flags(int pid, List<OpenFile> files)
      throws NotReleasableException {
    Map<Integer, Integer> flags = new LinkedHashMap<>();
    for (OpenFile file : files) {
      OptionalInt known = OpenFile.flags(pid, file.number());
      if (known.isEmpty()) {
        throw new NotReleasableException(
            "the flags of its descriptor %s are not known".formatted(file.number()));
      }
      flags.put(file.number(), known.getAsInt() & O_CLOEXEC);
    }
    return flags;
  }

  /** Checks that seccomp allows all calls, before the first one. */
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

  private static void drop(RemoteThread thread, Map<Integer, Integer> descriptors, int nullDevice)
      throws UntraceableException, IOException {
    for (Map.Entry<Integer, Integer> each : descriptors.entrySet()) {
      thread.call(SystemCall.DUP3, nullDevice, each.getKey(), each.getValue());
    }
  }

  private static void drop(RemoteThread thread, List<Mapping> mappings)
      throws UntraceableException, IOException {
    for (Mapping each : mappings) {
      thread.call(SystemCall.MMAP, inaccessible(each));
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
