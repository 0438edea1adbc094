package dev.gpuprocess.examples.cli;

import dev.gpuprocess.cuda.CudaAnswer;
import dev.gpuprocess.cuda.CudaDriver;
import dev.gpuprocess.cuda.CudaResult;
import dev.gpuprocess.cuda.GpuUuid;
import dev.gpuprocess.cuda.ProcessState;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

/**
 * The arguments and outputs of {@code cuda-checkpoint}, {@code cu_check} and {@code cr_client}, so
 * that scripts written for them run unchanged. As there, a call acts on one process and not on its
 * descendants, and calls the driver directly: no journal is written and nothing is checked first.
 */
final class CompatibleForms {

  static final String CUDA_CHECKPOINT = "cuda-checkpoint";
  static final String CU_CHECK = "cu_check";
  static final String CR_CLIENT = "cr_client";

  static final List<String> NAMES = List.of(CUDA_CHECKPOINT, CU_CHECK, CR_CLIENT);

  /** The lock timeout of {@code cu_check}, ten minutes. */
  private static final int CU_CHECK_TIMEOUT = 600_000;

  private static final int DONE = 0;
  private static final int FAILED = 1;

  /** {@code cu_check} returns -1 from main. */
  private static final int CU_CHECK_FAILED = 255;

  private final CudaDriver driver;
  private final PrintStream out;
  private final PrintStream err;

  CompatibleForms(CudaDriver driver, PrintStream out, PrintStream err) {
    this.driver = driver;
    this.out = out;
    this.err = err;
  }

  /**
   * Runs one call.
   *
   * @param name one of {@link #NAMES}
   * @param args as the program of that name takes them
   * @return the exit code of that program
   */
  int run(String name, List<String> args) {
    return switch (name) {
      case CUDA_CHECKPOINT -> cudaCheckpoint(args);
      case CU_CHECK -> cuCheck(args);
      default -> crClient(args);
    };
  }

  /** The arguments of {@code cuda-checkpoint}. */
  @Command(name = CUDA_CHECKPOINT, description = "CUDA checkpoint and restore by gpuprocess.")
  private static final class CudaCheckpointArguments {

    @Option(names = "--get-state", description = "Print the state of the process.")
    private boolean getState;

    @Option(names = "--get-restore-tid", description = "Print the id of its restore thread.")
    private boolean getRestoreTid;

    @Option(names = "--toggle", description = "Suspend or resume the process.")
    private boolean toggle;

    @Option(names = "--action", description = "lock, checkpoint, restore or unlock.")
    private @Nullable String action;

    @Option(
        names = {"--pid", "-p"},
        description = "The process.")
    private @Nullable Integer pid;

    @Option(
        names = {"--timeout", "-t"},
        description = "The timeout of a lock in milliseconds; 0 for none.")
    private int timeout;

    @Option(
        names = {"--device-map", "-d"},
        description = "OLD=NEW,... for each GPU of a restore, each a UUID.")
    private @Nullable String deviceMap;

    @Option(
        names = {"--help", "-h"},
        usageHelp = true,
        description = "Print this text.")
    private boolean help;
  }

  private int cudaCheckpoint(List<String> args) {
    CudaCheckpointArguments given = new CudaCheckpointArguments();
    CommandLine parser = new CommandLine(given);
    Map<GpuUuid, GpuUuid> pairs;
    try {
      parser.parseArgs(args.toArray(String[]::new));
      pairs = given.deviceMap == null ? Map.of() : Converters.pairs(given.deviceMap);
    } catch (ParameterException | IllegalArgumentException e) {
      return refused(parser, String.valueOf(e.getMessage()));
    }
    if (given.help) {
      parser.usage(out);
      return DONE;
    }
    int operations =
        (given.getState ? 1 : 0)
            + (given.getRestoreTid ? 1 : 0)
            + (given.toggle ? 1 : 0)
            + (given.action == null ? 0 : 1);
    if (operations != 1 || given.pid == null) {
      return refused(parser, "name one operation and a pid");
    }
    int pid = given.pid;
    if (given.getState) {
      CudaAnswer<ProcessState> state = driver.getState(pid);
      return state.value() == null
          ? stateUnknown(pid, state.result())
          : printed(state.value().name().toLowerCase(Locale.ROOT));
    }
    if (given.getRestoreTid) {
      CudaAnswer<Integer> thread = driver.getRestoreThreadId(pid);
      if (thread.value() == null) {
        err.printf(Locale.ROOT, "Could not find restore thread for process ID %d%n", pid);
        return FAILED;
      }
      return printed(String.valueOf(thread.value()));
    }
    if (given.toggle) {
      return toggle(pid, given.timeout, pairs);
    }
    String action = String.valueOf(given.action);
    return switch (action) {
      case "lock", "checkpoint", "restore", "unlock" -> act(action, pid, given.timeout, pairs);
      default -> refused(parser, "the action is lock, checkpoint, restore or unlock");
    };
  }

  private int toggle(int pid, int timeout, Map<GpuUuid, GpuUuid> pairs) {
    CudaAnswer<ProcessState> state = driver.getState(pid);
    if (state.value() == null) {
      return stateUnknown(pid, state.result());
    }
    return switch (state.value()) {
      case RUNNING -> both("lock", "checkpoint", pid, timeout, pairs);
      case CHECKPOINTED -> both("restore", "unlock", pid, timeout, pairs);
      default -> {
        err.printf(
            Locale.ROOT,
            "process ID %d is %s: only a running or checkpointed process can be toggled%n",
            pid,
            state.value().name().toLowerCase(Locale.ROOT));
        yield FAILED;
      }
    };
  }

  private int both(String first, String second, int pid, int timeout, Map<GpuUuid, GpuUuid> pairs) {
    int code = act(first, pid, timeout, pairs);
    if (code != DONE || act(second, pid, timeout, pairs) == DONE) {
      return code;
    }
    if (first.equals("lock") && driver.getState(pid).value() == ProcessState.LOCKED) {
      int unused = act("unlock", pid, timeout, pairs); // else it would stay blocked
    }
    return FAILED;
  }

  private int act(String action, int pid, int timeout, Map<GpuUuid, GpuUuid> pairs) {
    CudaResult result = call(action, pid, timeout, pairs);
    if (result.ok()) {
      return DONE;
    }
    err.printf(Locale.ROOT, "Could not %s on process ID %d: \"%s\"%n", action, pid, result.text());
    return FAILED;
  }

  private CudaResult call(String action, int pid, int timeout, Map<GpuUuid, GpuUuid> pairs) {
    return switch (action) {
      case "lock" -> driver.lock(pid, timeout);
      case "checkpoint" -> driver.checkpoint(pid);
      case "restore" -> driver.restore(pid, pairs);
      default -> driver.unlock(pid);
    };
  }

  private int stateUnknown(int pid, CudaResult result) {
    err.printf(
        Locale.ROOT, "Error getting process state for process ID %d: \"%s\"%n", pid, result.text());
    return FAILED;
  }

  private int printed(String line) {
    out.println(line);
    return DONE;
  }

  private int refused(CommandLine parser, String why) {
    err.println(parser.getCommandName() + ": " + Output.printable(why));
    parser.usage(err);
    return FAILED;
  }

  private int cuCheck(List<String> args) {
    if (args.size() < 2 || !args.get(1).matches("\\d{1,9}")) {
      err.println("usage: cu_check [state|thread|lock|checkpoint|restore|unlock] <pid>");
      return CU_CHECK_FAILED;
    }
    int pid = Integer.parseInt(args.get(1));
    String verb = args.get(0);
    switch (verb) {
      case "state" -> {
        CudaAnswer<ProcessState> state = driver.getState(pid);
        return state.value() == null
            ? cuCheckFailed("GetState", state.result())
            : printed("state: CU_PROCESS_STATE_" + state.value());
      }
      case "thread" -> {
        CudaAnswer<Integer> thread = driver.getRestoreThreadId(pid);
        return thread.value() == null
            ? cuCheckFailed("GetRestoreThreadId", thread.result())
            : printed("thread id: " + thread.value());
      }
      case "lock", "checkpoint", "restore", "unlock" -> {
        CudaResult result = call(verb, pid, CU_CHECK_TIMEOUT, Map.of());
        String name = verb.substring(0, 1).toUpperCase(Locale.ROOT) + verb.substring(1);
        return result.ok()
            ? printed(verb + (verb.endsWith("e") ? "d" : "ed") + " successfully")
            : cuCheckFailed(name, result);
      }
      default -> {
        out.println("unknown subcommand: " + Output.printable(verb));
        return CU_CHECK_FAILED;
      }
    }
  }

  private int cuCheckFailed(String function, CudaResult result) {
    err.printf(
        Locale.ROOT,
        "cuCheckpointProcess%s failed: %s %s%n",
        function,
        result.name(),
        result.text());
    return CU_CHECK_FAILED;
  }

  /** The arguments of {@code cr_client}. */
  @Command(name = CR_CLIENT)
  private static final class CrClientArguments {

    @Option(names = "-i")
    private boolean initialize;

    @Option(names = "-c")
    private boolean checkpoint;

    @Option(names = "-r")
    private boolean restore;

    @Option(names = "-b", description = "Only the buffers: no call of the driver.")
    private boolean buffersOnly;

    @Option(names = "-p")
    private @Nullable Integer pid;

    /** The root for CRIU, which AMD GPUs need. */
    @SuppressWarnings("UnusedVariable") // accepted, and not needed
    @Option(names = "-m")
    private @Nullable Integer root;
  }

  /**
   * There the process has a preloaded library that copies its buffers; here nothing is preloaded,
   * so {@code -i} and {@code -b} have nothing to do.
   */
  private int crClient(List<String> args) {
    CrClientArguments given = new CrClientArguments();
    CommandLine parser = new CommandLine(given);
    try {
      parser.parseArgs(args.toArray(String[]::new));
    } catch (ParameterException e) {
      err.println("Usage: cr_client [-i|-c|-r] -p pid [-m criu_pid] [-b]");
      return FAILED;
    }
    int operations =
        (given.initialize ? 1 : 0) + (given.checkpoint ? 1 : 0) + (given.restore ? 1 : 0);
    if (operations != 1 || given.pid == null) {
      err.println("cr_client: name one of -i, -c and -r, and a pid with -p");
      return FAILED;
    }
    if (given.initialize) {
      return DONE;
    }
    long began = System.nanoTime();
    int code = given.buffersOnly ? DONE : crClientToggle(given.pid, given.checkpoint);
    if (code == DONE && given.checkpoint) {
      out.println("Dump signal sent.");
      out.println("Dumping done.");
    }
    if (code == DONE) {
      out.printf(
          Locale.ROOT,
          "cuda-checkpoint %s time: %.3f s%n",
          given.checkpoint ? "checkpoint" : "restore",
          (System.nanoTime() - began) / 1e9);
      out.println(given.checkpoint ? "Checkpointing done" : "Restoring done");
    }
    return code;
  }

  private int crClientToggle(int pid, boolean checkpoint) {
    return checkpoint
        ? both("lock", "checkpoint", pid, 0, Map.of())
        : both("restore", "unlock", pid, 0, Map.of());
  }
}
