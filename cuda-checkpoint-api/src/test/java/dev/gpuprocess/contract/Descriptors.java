package dev.gpuprocess.contract;

import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.file.Path;

/**
 * Counts the descriptors of this JVM that a driver could leak. The JVM itself opens jars and other
 * files whenever it likes; those do not count.
 */
public final class Descriptors {

  private Descriptors() {}

  /**
   * Counts sockets, pipes, nameless inodes, and whatever is open below a directory.
   *
   * @param directory the directory of the test
   * @return how many
   */
  public static long open(Path directory) {
    return ProcFs.openFiles(ProcessHandle.current().pid()).stream()
        .filter(file -> !file.target().startsWith("/") || file.target().startsWith(directory + "/"))
        .count();
  }
}
