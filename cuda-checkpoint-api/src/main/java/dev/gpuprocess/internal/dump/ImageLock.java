package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.state.ProcessLock;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The lock of the pid of an image, whichever process has it or will have it. An isolated process
 * gets any pid that is free: each of its restores has a lock of its own.
 */
final class ImageLock {

  /** In place of a start time: any process with this pid. */
  private static final long NOT_STARTED = 0;

  /** From here on there are no pids: {@code PID_MAX_LIMIT} is 2^22. */
  private static final int NO_PIDS = 400_000_000;

  private ImageLock() {}

  /** That of a restore that needs no pid. */
  static ProcessKey ofItsOwn() {
    int noPid = NO_PIDS + ThreadLocalRandom.current().nextInt(NO_PIDS);
    return new ProcessKey(ProcessKey.self().namespace(), noPid, NOT_STARTED);
  }

  static ProcessKey key(Manifest manifest) {
    return key(manifest.pid());
  }

  private static ProcessKey key(int pid) {
    return new ProcessKey(ProcessKey.self().namespace(), pid, NOT_STARTED);
  }

  /** The locks of the root and of all CUDA processes, in the order in which verbs take them. */
  static List<ProcessLock> takeAll(EngineContext context, Manifest manifest, String verb) {
    Set<Integer> pids = new TreeSet<>(Set.of(manifest.pid()));
    manifest.cudaProcesses().forEach(each -> pids.add(each.pid()));
    List<ProcessLock> taken = new ArrayList<>();
    try {
      for (int pid : pids) {
        taken.add(take(context, key(pid), verb));
      }
      return taken;
    } catch (RuntimeException | Error e) {
      taken.forEach(ProcessLock::release);
      throw e;
    }
  }

  static ProcessLock take(EngineContext context, ProcessKey key, String verb) {
    return ProcessLock.take(
        key, key.pid(), verb, ProcessLock.Kind.MOVE, context.state(), context.timeouts().call());
  }
}
