package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** How a test program is dumped and restored. */
interface Way {

  /** Something went wrong on the way, with the reason. */
  class FailedException extends Exception {

    private static final long serialVersionUID = 1L;

    FailedException(String why, @Nullable Throwable cause) {
      super(why, cause);
    }

    FailedException(String why) {
      super(why);
    }
  }

  /**
   * The kernel has not given a pid free yet although its process is gone: it does so a moment
   * later.
   */
  final class PidTakenException extends FailedException {

    private static final long serialVersionUID = 1L;

    PidTakenException(String why, @Nullable Throwable cause) {
      super(why, cause);
    }
  }

  /**
   * Takes it away.
   *
   * @param options as on CRIU's command line
   */
  void dump(List<String> options, ProcessIdentity process, Path images, Path work)
      throws FailedException, NotHereException;

  /**
   * Brings it back.
   *
   * @param options as on CRIU's command line
   * @throws PidTakenException when it may be tried again
   * @return its pid: out here it is another one if it has a pid namespace of its own
   */
  int restore(List<String> options, int pid, Path images, Path work)
      throws FailedException, NotHereException;
}
