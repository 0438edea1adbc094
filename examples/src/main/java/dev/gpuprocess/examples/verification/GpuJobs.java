package dev.gpuprocess.examples.verification;

import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.verification.Trainer.Loaders;
import dev.gpuprocess.examples.verification.TrainingCheck.Taken;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * A program that checks process trees on a machine with NVIDIA GPUs: CUDA processes under traffic,
 * PyTorch trainers with forked loaders, the trees of {@code accelerate launch} and {@code
 * torchrun}, and the cost by the number of processes. It prints a table; the exit code is 0 only if
 * nothing failed. It needs a JRE, CRIU, root, and PyTorch, transformers and Accelerate for most
 * rows.
 *
 * <p>With {@code --simulated} the program itself is tried on simulated GPUs. Without names of rows
 * all rows run.
 */
public final class GpuJobs {

  private static final int STEPS = 150;
  private static final int PICTURE_STEPS = 60;
  private static final int TRAINER_MIB = 2048;
  private static final int MEMBER_MIB = 1024;
  private static final int COST_MIB = 16384;
  private static final int SIMULATED_MIB = 16;
  private static final int MEMBERS = 3;

  /**
   * Prevents NCCL from mapping memory of other ranks, which drivers below 610 cannot checkpoint.
   */
  private static final Map<String, String> NO_PEER_MEMORY =
      Map.of(
          "NCCL_P2P_DISABLE", "1",
          "NCCL_NVLS_ENABLE", "0",
          "NCCL_SHM_DISABLE", "1",
          "USE_LIBUV", "0",
          "NCCL_SOCKET_IFNAME", "lo",
          "NCCL_IB_DISABLE", "1");

  private static final Map<String, String> PEER_MEMORY =
      Map.of("NCCL_NVLS_ENABLE", "0", "NCCL_SOCKET_IFNAME", "lo", "NCCL_IB_DISABLE", "1");

  private static final String WITHOUT_IO_URING =
      "torchrun's own store uses io_uring, which CRIU does not dump: sysctl -w kernel.io_uring_disabled=2";

  private final Machine machine;
  private final PrintStream out;
  private final Checks checks;
  private final Optional<String> noTraining;

  GpuJobs(Machine machine, PrintStream out) {
    this.machine = machine;
    this.out = out;
    this.checks = new Checks(out);
    this.noTraining =
        machine.isSimulated() ? Optional.of("PyTorch needs a real GPU") : Trainer.whyMissing();
    out.println(machine.headline("gpu-jobs"));
  }

  /**
   * Runs the checks and exits.
   *
   * @param args {@code --simulated}, and the names of the rows to run
   */
  public static void main(String[] args) {
    List<String> rows = new ArrayList<>(List.of(args));
    boolean simulated = rows.remove("--simulated");
    System.exit(run(simulated, rows));
  }

  private static int run(boolean simulated, List<String> named) {
    try (Machine machine = simulated ? Machine.simulated("as asked") : Machine.real()) {
      GpuJobs program = new GpuJobs(machine, System.out);
      List<String> unknown =
          named.stream().filter(row -> !program.rows().containsKey(row)).toList();
      if (!unknown.isEmpty()) {
        System.err.println("no row " + unknown + "; there are " + program.rows().keySet());
        return 2;
      }
      return program.run(named);
    }
  }

  /** Runs the named checks, or all, and returns the exit code. */
  int run(List<String> named) {
    rows()
        .forEach(
            (name, check) -> {
              if (named.isEmpty() || named.contains(name)) {
                checks.run(name, check);
              }
            });
    return checks.finish(machine.headline("gpu-jobs"));
  }

  private Map<String, Supplier<Outcome>> rows() {
    Map<String, Supplier<Outcome>> rows = new LinkedHashMap<>();
    rows.put("traffic", () -> TrafficCheck.run(machine, out, MEMBERS, mebibytes(MEMBER_MIB)));
    TrainingProgram forked = TrainingProgram.trainer(STEPS, TRAINER_MIB, Loaders.FORK);
    rows.put("forked-found", () -> trip("4 forked loaders, found", 1, forked, Taken.FOUND));
    rows.put(
        "forked-launched", () -> trip("4 forked loaders, launched", 1, forked, Taken.LAUNCHED));
    TrainingProgram accelerated = TrainingProgram.accelerated("language_model.py", STEPS);
    rows.put("accelerate", () -> trip("accelerate launch, GPT-2", 1, accelerated, Taken.FOUND));
    TrainingProgram pictures = TrainingProgram.plain("image_model.py", PICTURE_STEPS);
    rows.put("resnet152", () -> trip("resnet152", 1, pictures, Taken.FOUND));
    TrainingProgram texts = TrainingProgram.plain("text_classifier.py", STEPS);
    rows.put("bert", () -> trip("BERT, Trainer", 1, texts, Taken.LAUNCHED));
    rows.put("cost", () -> new CostCheck(machine, out, mebibytes(COST_MIB)).run());
    TrainingProgram alone = TrainingProgram.trainer(2 * STEPS, TRAINER_MIB, Loaders.NONE);
    rows.put(
        "other-gpu",
        () -> training(OtherGpuCheck.WHAT, 2, () -> OtherGpuCheck.run(machine, out, alone)));
    TrainingProgram ranks = TrainingProgram.ranks("ranks.py", STEPS, 2, NO_PEER_MEMORY);
    String nccl = "2 ranks with NCCL";
    rows.put(
        "nccl",
        () ->
            mayUseIoUring()
                ? Outcome.skipped(nccl, WITHOUT_IO_URING)
                : trip(nccl, 2, ranks, Taken.FOUND));
    TrainingProgram peers = TrainingProgram.ranks("ranks.py", STEPS, 2, PEER_MEMORY);
    rows.put(
        "peer-memory",
        () -> training(PeerMemoryCheck.WHAT, 2, () -> PeerMemoryCheck.run(machine, out, peers)));
    return rows;
  }

  /** On a kernel before 6.6, which has no such switch, programs may always use it. */
  private static boolean mayUseIoUring() {
    try {
      return !Files.readString(Path.of("/proc/sys/kernel/io_uring_disabled")).strip().equals("2");
    } catch (IOException e) {
      return true;
    }
  }

  private int mebibytes(int real) {
    return machine.isSimulated() ? SIMULATED_MIB : real;
  }

  private Outcome trip(String what, int gpus, TrainingProgram program, Taken taken) {
    return training(what, gpus, () -> new TrainingCheck(machine, out, what, program).run(taken));
  }

  /** Runs a check if there are PyTorch and enough GPUs. */
  private Outcome training(String what, int gpus, Supplier<Outcome> check) {
    if (noTraining.isPresent()) {
      return Outcome.skipped(what, noTraining.get());
    }
    int there = machine.checkpoints().gpus().gpus().map(List::size).orElse(0);
    return there < gpus
        ? Outcome.skipped(what, "it needs %s GPUs, and there is %s".formatted(gpus, there))
        : check.get();
  }
}
