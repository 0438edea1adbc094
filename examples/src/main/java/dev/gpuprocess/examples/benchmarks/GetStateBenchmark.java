package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.ProcessState;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/** A benchmark of one call for the state of a process: by the binding alone, and by inspect. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 2, time = 1)
@Measurement(iterations = 3, time = 1)
@State(Scope.Benchmark)
public class GetStateBenchmark {

  private final CudaDriver cuda = GpuCheckpoints.standard().cuda();
  private final int pid = Integer.getInteger("bench.pid", 0);

  /** Called by the harness. */
  public GetStateBenchmark() {}

  /**
   * Calls the driver's function through the binding.
   *
   * @return the result of the driver
   */
  @Benchmark
  public CudaAnswer<ProcessState> getState() {
    return cuda.getState(pid);
  }

  /**
   * Calls the driver's function for a pid without a process. The driver returns at once, so this
   * measures the binding.
   *
   * @return the result of the driver
   */
  @Benchmark
  public CudaAnswer<ProcessState> getStateOfNobody() {
    return cuda.getState(-1);
  }

  /**
   * Calls what a user calls.
   *
   * @return the process in its state
   */
  @Benchmark
  public GpuProcess inspect() {
    return GpuProcess.inspect(pid);
  }
}
