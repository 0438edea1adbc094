package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.process.ProcessIdentity;
import java.nio.file.Path;

/** How a test program is dumped and restored. */
interface Way {

  /** Something went wrong on the way, with the reason. */
  final class FailedException extends Exception {

    private static final long serialVersionUID = 1L;

    FailedException(String why, Throwable cause) {
      super(why, cause);
    }

    FailedException(String why) {
      super(why);
    }
  }

  /** Takes it away; its pid is free afterwards. */
  void dump(Program program, ProcessIdentity process, Path images, Path work)
      throws FailedException, NotHereException;

  /** Brings it back. */
  void restore(Program program, int pid, Path images, Path work)
      throws FailedException, NotHereException;
}
