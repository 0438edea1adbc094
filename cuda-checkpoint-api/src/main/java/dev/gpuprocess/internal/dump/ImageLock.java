package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.process.ProcessKey;
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
    return new ProcessKey(ProcessKey.self().namespace(), manifest.pid(), NOT_STARTED);
  }

  static ProcessLock take(EngineContext context, Manifest manifest, String verb) {
    return take(context, manifest, key(manifest), verb);
  }

  static ProcessLock take(EngineContext context, Manifest manifest, ProcessKey key, String verb) {
    return ProcessLock.take(
        key,
        manifest.pid(),
        verb,
        ProcessLock.Kind.MOVE,
        context.state(),
        context.timeouts().call());
  }
}
