package dev.gpuprocess.criu.internal.preflight;

import dev.gpuprocess.criu.internal.os.LinuxCalls;
import dev.gpuprocess.criu.internal.os.Poll;
import dev.gpuprocess.internal.linux.Libc;
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
      int process = LinuxCalls.pidfdOpen(place.pid());
      try {
        int copy = LinuxCalls.pidfdGetfd(process, Integer.parseInt(place.handle()));
        try {
          Poll poll = new Poll(1);
          return Optional.of(!poll.await(0, copy) || !poll.isHungUp(0));
        } finally {
          Libc.close(copy);
        }
      } finally {
        Libc.close(process);
      }
    } catch (IOException goneOrForbidden) {
      return Optional.empty();
    }
  }
}
