package dev.gpuprocess.internal.dump;

import dev.gpuprocess.image.Manifest;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.lock.ProcessLock;
import dev.gpuprocess.internal.process.ProcessKey;

/** The lock of the pid of an image, whichever process has it or will have it. */
final class ImageLock {

  /** In place of a start time: any process with this pid. */
  private static final long NOT_STARTED = 0;

  private ImageLock() {}

  static ProcessKey key(Manifest manifest) {
    return new ProcessKey(ProcessKey.self().namespace(), manifest.pid(), NOT_STARTED);
  }

  static ProcessLock take(EngineContext context, Manifest manifest, String verb) {
    return ProcessLock.take(
        key(manifest),
        manifest.pid(),
        verb,
        ProcessLock.Kind.MOVE,
        context.state(),
        context.timeouts().call());
  }
}
