/** A scheduler that shares a GPU between jobs. */
module com.example.scheduler {
  requires dev.gpuprocess;
  requires dev.gpuprocess.criu;

  exports com.example.scheduler;
}
