package dev.gpuprocess.examples.verification;

import dev.gpuprocess.contract.CudaDriverContract;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.GpuInventory;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.fixtures.Launch;
import dev.gpuprocess.fixtures.Workload;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** The driver contract on the machine that {@link ContractCheck} was given. */
class MachineContract extends CudaDriverContract {

  /** JUnit makes the instances, so there is no other way to hand it over. */
  private static @Nullable Machine machine;

  static void use(Machine chosen) {
    machine = chosen;
  }

  private static Machine machine() {
    return Objects.requireNonNull(machine, "use() comes first");
  }

  @Override
  protected CudaDriver driver() {
    return machine().checkpoints().cuda();
  }

  @Override
  protected GpuInventory inventory() {
    return machine().checkpoints().gpus();
  }

  @Override
  protected <W extends Workload> Launch<W> on(Launch<W> launch) {
    return machine().on(launch);
  }
}
