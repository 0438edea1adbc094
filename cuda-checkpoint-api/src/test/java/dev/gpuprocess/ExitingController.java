package dev.gpuprocess;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.error.StaleStateException;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.options.Timeouts;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A controller in a JVM of its own that suspends something, and is ended by a SIGTERM. */
final class ExitingController implements AutoCloseable {

  static final int SIGTERM_EXIT = 128 + 15;

  private static final String BEGUN = "begun";

  /** Of the lock, a call, and memory: the sum bounds the exit. */
  static final Duration EACH = Duration.ofSeconds(20);

  private final Process process;

  private ExitingController(Process process) {
    this.process = process;
  }

  /**
   * Starts one, and returns when it has come to the moment.
   *
   * @param resumes whether its exit resumes what it has suspended
   * @param moment the step that it begins, or {@code block} for the body of its try block
   * @param verb {@code suspend}, {@code lock}, {@code job}; {@code twice}, which uses an older
   *     object of the process in addition; or {@code beside} and the pid of another process that it
   *     suspends between the lock and the checkpoint
   */
  static ExitingController start(
      SimulatedDriver machine, Path state, long pid, boolean resumes, String moment, String verb)
      throws IOException {
    return start(machine, state, pid, resumes, moment, verb, EACH);
  }

  static ExitingController start(
      SimulatedDriver machine,
      Path state,
      long pid,
      boolean resumes,
      String moment,
      String verb,
      Duration each)
      throws IOException {
    Process process =
        new ProcessBuilder(
                TestJvm.command(
                    List.of("-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
                    ExitingController.class,
                    machine.directory().toString(),
                    state.toString(),
                    Long.toString(pid),
                    Boolean.toString(resumes),
                    moment,
                    verb,
                    each.toString()))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    String line = process.inputReader().readLine();
    if (!BEGUN.equals(line)) {
      process.destroyForcibly();
      throw new IllegalStateException("the controller did not begin: " + line);
    }
    return new ExitingController(process);
  }

  /** Suspends, and waits in the try block until the JVM is ended. */
  public static void main(String[] args) throws InterruptedException {
    Path machine = Path.of(args[0]);
    long pid = Long.parseLong(args[2]);
    String moment = args[4];
    Duration each = Duration.parse(args[6]);
    StepListener telling =
        new StepListener() {
          @Override
          public void started(String name, int of) {
            if (name.equals(moment)) {
              System.out.println(BEGUN);
            }
          }
        };
    GpuCheckpoints checkpoints =
        GpuCheckpoints.builder()
            .cuda(machine)
            .stateDirectory(Path.of(args[1]))
            .listener(telling)
            .timeouts(Timeouts.builder().lock(each).call(each).memory(each).build())
            .resumeOnExit(Boolean.parseBoolean(args[3]))
            .build();
    try (AutoCloseable held = held(checkpoints, pid, args[5])) {
      if (moment.equals("block")) {
        System.out.println(BEGUN);
      }
      new CountDownLatch(1).await();
    } catch (InterruptedException e) {
      throw e;
    } catch (Exception e) {
      System.out.println(e);
    }
  }

  private static AutoCloseable held(GpuCheckpoints checkpoints, long pid, String verb) {
    if (verb.startsWith("beside ")) {
      return suspendBeside(checkpoints, pid, Long.parseLong(verb.substring(7)));
    }
    return switch (verb) {
      case "suspend" -> checkpoints.process(pid).suspend();
      case "lock" -> checkpoints.process(pid).lock();
      case "twice" -> suspendAndUseAnOlderObject(checkpoints, pid);
      case "job" -> checkpoints.process(pid).suspend();
      default -> throw new IllegalArgumentException(verb);
    };
  }

  private static AutoCloseable suspendAndUseAnOlderObject(GpuCheckpoints checkpoints, long pid) {
    RunningProcess older = checkpoints.process(pid);
    CheckpointedProcess suspended = checkpoints.suspend(pid);
    try {
      throw new IllegalStateException(older.suspend() + " was suspended twice");
    } catch (StaleStateException expected) {
      return suspended;
    }
  }

  private static AutoCloseable suspendBeside(GpuCheckpoints checkpoints, long pid, long other) {
    StepListener between =
        new StepListener() {
          @Override
          public void finished(Step step) {
            if (step.name().equals("lock")) {
              checkpoints.process(other).suspend();
            }
          }
        };
    return checkpoints.toBuilder().listener(between).build().process(pid).suspend();
  }

  /** Sends it a SIGTERM. */
  void terminate() {
    process.destroy();
  }

  /** Waits until it has exited, and returns its exit code. */
  int awaitExit(Duration limit) throws InterruptedException {
    if (!process.waitFor(limit.toMillis(), TimeUnit.MILLISECONDS)) {
      throw new IllegalStateException("the controller does not exit");
    }
    return process.exitValue();
  }

  @Override
  public void close() {
    TestJvm.end(process);
  }
}
