package dev.gpuprocess.criu.internal.preflight;

import java.io.IOException;
import java.util.Optional;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;

/** Asks the kernel whether anybody has the other end of a pipe open, wherever that may be. */
final class PipeEnds {

  // The same number on every architecture.
  private static final long PIDFD_OPEN = 434;
  private static final long PIDFD_GETFD = 438;

  // struct pollfd
  private static final int POLLFD_BYTES = 8;
  private static final int REVENTS = 6;
  private static final int POLLERR = 0x8;
  private static final int POLLHUP = 0x10;

  private PipeEnds() {}

  /**
   * Polls a copy of the descriptor, which takes nothing out of the pipe.
   *
   * @return empty if we may not copy it, or if the kernel is older than Linux 5.6
   */
  static Optional<Boolean> hasOtherEnd(ResourceRef place) {
    try {
      int process = Kernel.check(Kernel.C.syscall(PIDFD_OPEN, place.pid(), 0, 0), "pidfd_open");
      try {
        int number = Integer.parseInt(place.handle());
        int copy = Kernel.check(Kernel.C.syscall(PIDFD_GETFD, process, number, 0), "pidfd_getfd");
        try {
          Pointer pollfd = Memory.allocateDirect(Kernel.RUNTIME, POLLFD_BYTES, true);
          pollfd.putInt(0, copy);
          Kernel.check(Kernel.C.poll(pollfd, 1, 0), "poll");
          return Optional.of((pollfd.getShort(REVENTS) & (POLLERR | POLLHUP)) == 0);
        } finally {
          Kernel.close(copy);
        }
      } finally {
        Kernel.close(process);
      }
    } catch (IOException goneOrForbidden) {
      return Optional.empty();
    }
  }
}
