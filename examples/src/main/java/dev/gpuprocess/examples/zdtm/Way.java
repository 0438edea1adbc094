package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A way to dump and restore a test program. */
interface Way {

  /** Thrown if a step fails, with the reason. */
  class FailedException extends Exception {

    private static final long serialVersionUID = 1L;

    FailedException(String why, @Nullable Throwable cause) {
      super(why, cause);
    }

    FailedException(String why) {
      super(why);
    }
  }

  /** Thrown if the pid of an exited process is still taken; it is free a moment later. */
  final class PidTakenException extends FailedException {

    private static final long serialVersionUID = 1L;

    PidTakenException(String why, @Nullable Throwable cause) {
      super(why, cause);
    }
  }

  /**
   * Dumps the process.
   *
   * @param options the options of CRIU's command line
   */
  void dump(List<String> options, ProcessIdentity process, Path images, Path work)
      throws FailedException, NotHereException;

  /**
   * Restores the process.
   *
   * @param options the options of CRIU's command line
   * @return its pid outside, which is another one if it has a pid namespace of its own
   * @throws PidTakenException if a later attempt may succeed
   */
  int restore(List<String> options, int pid, Path images, Path work)
      throws FailedException, NotHereException;
}
