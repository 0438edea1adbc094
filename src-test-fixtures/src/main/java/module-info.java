/** A simulated CUDA driver, workloads to run on it or on a real one, and faults on demand. */
module dev.gpuprocess.fixtures {
  requires static transitive org.jspecify;

  exports dev.gpuprocess.fixtures;
}
