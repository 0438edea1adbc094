package dev.gpuprocess.internal.cuda;

import dev.gpuprocess.contract.CudaDriverContract;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.fixtures.Launch;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.Workload;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;

/**
 * The contract, through the same binding as the real driver, on a simulated machine with two GPUs.
 */
@Tag("jdk")
@Tag("slow")
class SimulatedDriverContractTest extends CudaDriverContract {

  private static SimulatedDriver machine;

  @BeforeAll
  static void buildMachine() {
    machine = SimulatedDriver.builder().gpus(2).memory(4L << 30).create();
  }

  @AfterAll
  static void removeMachine() {
    machine.close();
  }

  @Override
  protected CudaDriver driver() {
    return LibCuda.in(machine.directory());
  }

  @Override
  protected GpuInventory inventory() {
    return LibNvml.in(machine.directory());
  }

  @Override
  protected <W extends Workload> Launch<W> on(Launch<W> launch) {
    return launch.on(machine);
  }
}
