package dev.gpuprocess.internal.inherited;

import dev.gpuprocess.internal.linux.Kcmp;
import dev.gpuprocess.internal.linux.NativeCallException;
import dev.gpuprocess.internal.linux.ProcessMemory;
import dev.gpuprocess.internal.proc.AuxiliaryVector;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.remote.RestoreThread;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.util.ArrayList;
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
 * Whether what a child holds of the GPU came to it by fork from a process that uses CUDA, and is of
 * no use to it. Only looks; what cannot be known is an obstacle. Not for use by several threads at
 * a time.
 *
 * <p>A child that was forked after {@code cuInit}, and has not executed another program since, can
 * never use CUDA: the driver refuses it. So what it has of the device files it has inherited,
 * unless a library that works without CUDA opened them, such as NVML.
 */
public final class Inheritance {

  private static final int RANDOM_BYTES = 16;

  /** Libraries that open the device files for themselves. */
  private static final Pattern OTHER_USERS =
      Pattern.compile(
          ".*/lib(nvidia-(ml|eglcore|glcore|glsi|rtcore)|EGL_nvidia|GLX_nvidia)\\.so.*");

  private final ProcessIdentity origin;

  /** What another process had too when it was looked at first: that may lose it before this one. */
  private final Map<ProcessIdentity, Set<OpenFile>> shared = new HashMap<>();

  /**
   * Of the children of a process.
   *
   * @param origin the process that uses CUDA
   */
  public Inheritance(ProcessIdentity origin) {
    this.origin = origin;
  }

  /**
   * The nearest of a child's parents that uses CUDA.
   *
   * @param users the processes that do
   * @throws NotReleasableException when none of its parents does
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
        "none of its parents uses CUDA, so it is not known how it came by them");
  }

  /**
   * Checks a child of which the driver says that it has no CUDA state.
   *
   * @param held what it holds
   * @throws NotReleasableException when it must keep that, or that is not known; also when the
   *     child has ended
   * @throws dev.gpuprocess.error.ProcessUnreadableException when a process may not be looked at
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
   * Whether a child has memory and descriptors of its own. It has not between {@code vfork} and the
   * execution of a program, which is soon over.
   *
   * @throws NotReleasableException when that is not known
   */
  public boolean isApart(ProcessIdentity child) throws NotReleasableException {
    try {
      return sharer(child.pid(), ProcFs.tree(origin.pid())).isEmpty();
    } catch (NativeCallException e) {
      throw unknown(e);
    }
  }

  /** What is changed in one would be changed in the other, which may be the one that uses CUDA. */
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
          "it executed a program of its own after it was forked, so it did not inherit them");
    }
  }

  private static byte[] random(ProcessIdentity process)
      throws NativeCallException, NotReleasableException {
    OptionalLong address = AuxiliaryVector.value(process.pid(), AuxiliaryVector.AT_RANDOM);
    Optional<ProcStat> living =
        ProcFs.tasks(process.pid()).stream().filter(thread -> !thread.isDead()).findFirst();
    if (address.isEmpty() || living.isEmpty()) {
      throw new NotReleasableException(
          "it is not known which program process %s executed last".formatted(process.pid()));
    }
    return new ProcessMemory(living.get().pid()).read(address.getAsLong(), RANDOM_BYTES);
  }

  /** The driver starts its thread in {@code cuInit}. The kernel tells times by hundredths. */
  private void requireAfterCuda(ProcessIdentity child)
      throws UntraceableException, NotReleasableException {
    int thread = RestoreThread.of(origin);
    boolean after =
        ProcFs.tasks(origin.pid()).stream()
            .anyMatch(task -> task.pid() == thread && task.startTicks() < child.startTicks());
    if (!after) {
      throw new NotReleasableException(
          "it was forked before process %s called cuInit, or within 10 ms of that, so it may use CUDA itself"
              .formatted(origin.pid()));
    }
  }

  private static boolean hasOtherUser(int child) {
    List<String> found = new ArrayList<>();
    ProcFs.memory(
        child,
        mapping -> {
          if (found.isEmpty() && OTHER_USERS.matcher(mapping.name()).matches()) {
            found.add(mapping.name());
          }
        });
    return !found.isEmpty();
  }

  /** What it opened itself, neither its parent has nor a child of that which is not its own. */
  private void requireShared(ProcessIdentity child, List<OpenFile> descriptors, List<Integer> tree)
      throws NativeCallException, NotReleasableException {
    int branch = branch(child.pid());
    List<Integer> others =
        tree.stream().filter(other -> other == origin.pid() || branch(other) != branch).toList();
    Set<OpenFile> known = shared.computeIfAbsent(child, none -> new HashSet<>());
    for (OpenFile file : descriptors) {
      if (!known.contains(file) && !isShared(child.pid(), file.number(), others)) {
        throw new NotReleasableException(
            "no other process has its descriptor %s and it has loaded NVML or a graphics library, so it may have opened %s itself"
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

  /** The child of the origin that it is, or descends from; itself when its parent is gone. */
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
