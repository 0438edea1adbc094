package dev.gpuprocess.internal.inherited;

import dev.gpuprocess.internal.linux.Kcmp;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.AuxiliaryVector;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.remote.RestoreThread;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Checks that a child has inherited its GPU device files by fork from a process that uses CUDA, and
 * cannot use them. An unknown answer counts as no. Changes nothing. Not for use by several threads
 * at a time.
 *
 * <p>A child that was forked after {@code cuInit} and has not executed another program since can
 * never use CUDA: the driver refuses it. So the child has inherited the device files, unless a
 * library that works without CUDA opened them, such as NVML.
 */
public final class Inheritance {

  private static final int RANDOM_BYTES = 16;

  /** Libraries that open the device files for themselves. */
  private static final Pattern OTHER_USERS =
      Pattern.compile(
          ".*/lib(nvidia-(ml|eglcore|glcore|glsi|rtcore)|EGL_nvidia|GLX_nvidia)\\.so.*");

  private final ProcessIdentity origin;

  /** Descriptors that another process had too at the first check; it may release them earlier. */
  private final Map<ProcessIdentity, Set<OpenFile>> shared = new HashMap<>();

  /**
   * Creates a check for the children of a process.
   *
   * @param origin the process that uses CUDA
   */
  public Inheritance(ProcessIdentity origin) {
    this.origin = origin;
  }

  /**
   * Returns the nearest ancestor of a child that uses CUDA.
   *
   * @param users the processes that use CUDA
   * @throws NotReleasableException if no ancestor uses CUDA
   */
  public static ProcessIdentity origin(ProcessIdentity child, List<ProcessIdentity> users)
      throws NotReleasableException {
    Optional<ProcStat> at = ProcFs.stat(child.pid());
    while (at.isPresent() && at.get().parent() > 1) {
      int parent = at.get().parent();
      Optional<ProcessIdentity> user =
          users.stream().filter(each -> each.pid() == parent).findFirst();
      if (user.isPresent()) {
        return user.get();
      }
      at = ProcFs.stat(parent);
    }
    throw new NotReleasableException(
        "none of its ancestors uses CUDA, so the origin of its device files is unknown");
  }

  /**
   * Checks a child that has no CUDA state by the driver's answer.
   *
   * @param held the device files of the child
   * @throws NotReleasableException if the child may need them, or has ended
   * @throws dev.gpuprocess.internal.proc.ProcessUnreadableException if a process may not be read
   */
  public void require(ProcessIdentity child, GpuHandles held) throws NotReleasableException {
    try {
      List<Integer> tree = ProcFs.tree(origin.pid());
      requireApart(child.pid(), tree);
      held.requireDevices(child.pid());
      requireSameProgram(child);
      requireAfterCuda(child);
      if (hasOtherUser(child.pid())) {
        requireShared(child, held.descriptors(), tree);
      }
    } catch (NativeCallException e) {
      throw unknown(e);
    } catch (UntraceableException e) {
      throw new NotReleasableException(String.valueOf(e.getMessage()), e);
    }
  }

  private static NotReleasableException unknown(NativeCallException e) {
    return new NotReleasableException(
        e.isNotPermitted()
            ? e.getMessage()
                + ": run as root, or give this JVM CAP_SYS_PTRACE, and a seccomp profile that allows kcmp"
            : String.valueOf(e.getMessage()),
        e);
  }

  /**
   * Returns whether a child has memory and descriptors of its own. It has not between {@code vfork}
   * and the execution of a program.
   *
   * @throws NotReleasableException if that is unknown
   */
  public boolean isApart(ProcessIdentity child) throws NotReleasableException {
    try {
      return sharer(child.pid(), ProcFs.tree(origin.pid())).isEmpty();
    } catch (NativeCallException e) {
      throw unknown(e);
    }
  }

  /** Shared memory or descriptors would change in the other process too, which may use CUDA. */
  private static void requireApart(int child, List<Integer> tree)
      throws NativeCallException, NotReleasableException {
    OptionalInt sharer = sharer(child, tree);
    if (sharer.isPresent()) {
      throw new NotReleasableException(
          "it shares its memory or its descriptors with process %s, as between vfork and the execution of a program"
              .formatted(sharer.getAsInt()));
    }
  }

  private static OptionalInt sharer(int child, List<Integer> tree) throws NativeCallException {
    for (int other : tree) {
      if (other != child && isShared(child, other)) {
        return OptionalInt.of(other);
      }
    }
    return OptionalInt.empty();
  }

  private static boolean isShared(int child, int other) throws NativeCallException {
    try {
      return Kcmp.sharesMemory(child, other) || Kcmp.sharesDescriptors(child, other);
    } catch (NativeCallException e) {
      if (e.isGone() && ProcFs.stat(other).isEmpty()) {
        return false;
      }
      throw e;
    }
  }

  private void requireSameProgram(ProcessIdentity child)
      throws NativeCallException, NotReleasableException {
    if (!Arrays.equals(random(child), random(origin))) {
      throw new NotReleasableException(
          "it executed another program after the fork, so it did not inherit its device files");
    }
  }

  private static byte[] random(ProcessIdentity process)
      throws NativeCallException, NotReleasableException {
    OptionalLong address = AuxiliaryVector.value(process.pid(), AuxiliaryVector.AT_RANDOM);
    Optional<ProcStat> living = ProcFs.livingThread(process.pid());
    if (address.isEmpty() || living.isEmpty()) {
      throw new NotReleasableException(
          "the program that process %s executed last is unknown".formatted(process.pid()));
    }
    return new ProcessMemory(living.get().pid()).read(address.getAsLong(), RANDOM_BYTES);
  }

  /** The driver starts its thread in {@code cuInit}. Start times are in hundredths of a second. */
  private void requireAfterCuda(ProcessIdentity child)
      throws UntraceableException, NotReleasableException {
    int thread = RestoreThread.of(origin);
    boolean after =
        ProcFs.eachTask(origin.pid())
            .anyMatch(task -> task.pid() == thread && task.startTicks() < child.startTicks());
    if (!after) {
      throw new NotReleasableException(
          "it was forked before process %s called cuInit, or within 10 ms, so it may use CUDA itself"
              .formatted(origin.pid()));
    }
  }

  private static boolean hasOtherUser(int child) {
    return !Mapping.of(child, mapping -> OTHER_USERS.matcher(mapping.name()).matches()).isEmpty();
  }

  /** A device file that the child has opened itself is in no other branch of the tree. */
  private void requireShared(ProcessIdentity child, List<OpenFile> descriptors, List<Integer> tree)
      throws NativeCallException, NotReleasableException {
    int branch = branch(child.pid());
    List<Integer> others =
        tree.stream().filter(other -> other == origin.pid() || branch(other) != branch).toList();
    Set<OpenFile> known = shared.computeIfAbsent(child, none -> new HashSet<>());
    for (OpenFile file : descriptors) {
      if (!known.contains(file) && !isShared(child.pid(), file.number(), others)) {
        throw new NotReleasableException(
            "no other process has its descriptor %s, and it has loaded NVML or a graphics library, so it may have opened %s itself"
                .formatted(file.number(), file.target()));
      }
      known.add(file);
    }
  }

  private static boolean isShared(int child, int descriptor, List<Integer> others)
      throws NativeCallException {
    for (int other : others) {
      try {
        if (Kcmp.isSameOpening(child, other, descriptor)) {
          return true;
        }
      } catch (NativeCallException e) {
        if (!e.isGone() || ProcFs.stat(other).isPresent()) {
          throw e;
        }
      }
    }
    return false;
  }

  /**
   * Returns the child of the origin that a process is or descends from; itself if its parent is
   * gone.
   */
  private int branch(int descendant) {
    int at = descendant;
    for (Optional<ProcStat> stat = ProcFs.stat(at);
        stat.isPresent() && stat.get().parent() > 1 && stat.get().parent() != origin.pid();
        stat = ProcFs.stat(at)) {
      at = stat.get().parent();
    }
    return at;
  }
}
