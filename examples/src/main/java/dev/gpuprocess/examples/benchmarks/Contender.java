package dev.gpuprocess.examples.benchmarks;

import java.io.IOException;
import java.nio.file.Path;

/** A way to dump and restore a process. */
interface Contender {

  /** Dumps it; when this returns the files are on disk. */
  void dump(int pid, Path place) throws IOException, InterruptedException;

  /** Restores it. */
  void restore(int pid, Path place) throws IOException, InterruptedException;
}
