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

/** One question for the state of a process, bare and with all that {@code inspect} looks at. */
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
   * The driver's function through the binding.
   *
   * @return its answer
   */
  @Benchmark
  public CudaAnswer<ProcessState> getState() {
    return cuda.getState(pid);
  }

  /**
   * The same for a process that is not there, which the driver answers without asking anybody: what
   * is left is the binding.
   *
   * @return its answer
   */
  @Benchmark
  public CudaAnswer<ProcessState> getStateOfNobody() {
    return cuda.getState(-1);
  }

  /**
   * What a user calls.
   *
   * @return the process in its state
   */
  @Benchmark
  public GpuProcess inspect() {
    return GpuProcess.inspect(pid);
  }
}
