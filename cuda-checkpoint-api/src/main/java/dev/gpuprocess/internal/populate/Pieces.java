package dev.gpuprocess.internal.populate;

import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.trace.RemoteThreads.Advice;
import java.util.ArrayList;
import java.util.List;

/**
 * Memory divided among threads. The driver goes through it from its start to its end, so all
 * threads work at the front: each takes every n-th piece.
 */
final class Pieces {

  /** Small enough that the front is soon there, large enough that the calls are few. */
  static final long BYTES = 64L << 20;

  private Pieces() {}

  /**
   * Divides.
   *
   * @param threads at most as many lists are made
   * @param advice what each piece is populated for
   * @return what each thread populates; the first does most
   */
  static List<List<Advice>> of(List<AddressRange> ranges, int threads, int advice) {
    List<List<Advice>> work = new ArrayList<>();
    int piece = 0;
    for (AddressRange range : ranges) {
      for (long at = range.start(); at < range.end(); at += BYTES) {
        int thread = piece++ % threads;
        if (thread == work.size()) {
          work.add(new ArrayList<>());
        }
        work.get(thread).add(new Advice(at, Math.min(BYTES, range.end() - at), advice));
      }
    }
    return work;
  }
}
