package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.process.ProcessKey;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** The lock of the pid of an image, whichever process has it or will have it. */
final class ImageLock {

  /** In place of a start time: any process with this pid. */
  private static final long NOT_STARTED = 0;

  private ImageLock() {}

  static ProcessKey key(Manifest manifest) {
    return new ProcessKey(ProcessKey.self().namespace(), manifest.pid(), NOT_STARTED);
  }

  /** The locks of the root and of all CUDA processes, in the order in which verbs take them. */
  static List<ProcessLock> takeAll(EngineContext context, Manifest manifest, String verb) {
    Set<Integer> pids = new TreeSet<>(Set.of(manifest.pid()));
    manifest.cudaProcesses().forEach(each -> pids.add(each.pid()));
    List<ProcessLock> taken = new ArrayList<>();
    try {
      for (int pid : pids) {
        taken.add(take(context, pid, verb));
      }
      return taken;
    } catch (RuntimeException | Error e) {
      taken.forEach(ProcessLock::release);
      throw e;
    }
  }

  private static ProcessLock take(EngineContext context, int pid, String verb) {
    return ProcessLock.take(
        new ProcessKey(ProcessKey.self().namespace(), pid, NOT_STARTED),
        pid,
        verb,
        ProcessLock.Kind.MOVE,
        context.state(),
        context.timeouts().call());
  }

  static ProcessLock take(EngineContext context, Manifest manifest, String verb) {
    return take(context, manifest.pid(), verb);
  }
}
