package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.Poll;
import dev.gpuprocess.internal.linux.ProcessDescriptor;
import java.io.IOException;
import java.util.Optional;

/** Asks the kernel whether anybody has the other end of a pipe open, wherever that may be. */
final class PipeEnds {

  private PipeEnds() {}

  /**
   * Polls a copy of the descriptor, which takes nothing out of the pipe.
   *
   * @return empty if we may not copy it, or if the kernel is older than Linux 5.6
   */
  static Optional<Boolean> hasOtherEnd(ResourceRef place) {
    try {
      int copy = ProcessDescriptor.take(place.pid(), place.pid(), Integer.parseInt(place.handle()));
      try {
        Poll poll = new Poll(1);
        return Optional.of(!poll.await(0, copy) || !poll.isHungUp(0));
      } finally {
        Libc.close(copy);
      }
    } catch (IOException goneOrForbidden) {
      return Optional.empty();
    }
  }
}
