package dev.gpuprocess.internal.populate;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.trace.RemoteThreads.Advice;
import java.util.ArrayList;
import java.util.List;

/**
 * Memory divided among threads. The driver fills it from its start to its end, so all threads work
 * at the front: each takes every n-th piece.
 */
final class Pieces {

  /** Small enough that the front is soon there, large enough that the calls are few. */
  static final long BYTES = 64L << 20;

  private static final int MADV_POPULATE_WRITE = 23;

  private Pieces() {}

  /**
   * Divides.
   *
   * @param threads at most as many lists are made
   * @return what each thread populates
   */
  static List<List<Advice>> of(AddressRange memory, int threads) {
    List<List<Advice>> work = new ArrayList<>();
    for (long done = 0; done < memory.bytes(); done += BYTES) {
      int thread = (int) (done / BYTES % threads);
      if (thread == work.size()) {
        work.add(new ArrayList<>());
      }
      work.get(thread)
          .add(
              new Advice(
                  memory.start() + done,
                  Math.min(BYTES, memory.bytes() - done),
                  MADV_POPULATE_WRITE));
    }
    return work;
  }
}
