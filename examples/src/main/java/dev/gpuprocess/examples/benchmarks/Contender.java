package dev.gpuprocess.examples.benchmarks;

import java.io.IOException;
import java.nio.file.Path;

/** A way to dump and restore a process. */
interface Contender {

  /** Dumps a process; its files are on the disk when this returns. */
  void dump(int pid, Path place) throws IOException, InterruptedException;

  /** Restores a process. */
  void restore(int pid, Path place) throws IOException, InterruptedException;
}
