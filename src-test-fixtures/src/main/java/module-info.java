/**
 * A simulated CUDA driver, workloads for it or for a real driver, faults, and a JUnit extension.
 */
module dev.gpuprocess.fixtures {
  requires static transitive org.jspecify;
  requires static transitive org.junit.jupiter.api;
  requires org.apache.commons.exec;

  exports dev.gpuprocess.fixtures;

  uses dev.gpuprocess.fixtures.SimulatedGpuParameter;
}
