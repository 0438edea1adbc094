package dev.gpuprocess;

import dev.gpuprocess.contract.TestJvm;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.report.Step;
import dev.gpuprocess.report.StepListener;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A controller in a JVM of its own, in the middle of a verb that does not end. */
public final class OtherController implements AutoCloseable {

  private static final String BEGUN = "begun";

  private final Process process;

  private OtherController(Process process) {
    this.process = process;
  }

  /** Starts one that locks; the driver must hang in the lock. */
  public static OtherController locking(SimulatedDriver machine, Path state, long pid)
      throws IOException {
    return start("lock", machine, state, pid);
  }

  /** Starts one that suspends, and stops between the lock and the checkpoint. */
  static OtherController suspending(SimulatedDriver machine, Path state, long pid)
      throws IOException {
    return start("suspend", machine, state, pid);
  }

  private static OtherController start(String verb, SimulatedDriver machine, Path state, long pid)
      throws IOException {
    Process process =
        new ProcessBuilder(
                TestJvm.command(
                    OtherController.class,
                    verb,
                    machine.directory().toString(),
                    state.toString(),
                    Long.toString(pid)))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    BufferedReader out = process.inputReader();
    if (!BEGUN.equals(out.readLine())) {
      throw new IllegalStateException("the other controller did not begin");
    }
    return new OtherController(process);
  }

  /** Does its verb until it is killed. */
  public static void main(String[] args) {
    boolean suspends = args[0].equals("suspend");
    Path machine = Path.of(args[1]);
    StepListener beginning =
        new StepListener() {
          @Override
          public void started(String name, int pid) {
            if (!suspends) {
              System.out.println(BEGUN);
            }
          }

          @Override
          public void finished(Step step) {
            if (suspends) {
              System.out.println(BEGUN);
              waitToBeKilled();
            }
          }
        };
    RunningProcess running =
        GpuCheckpoints.builder()
            .cuda(machine)
            .stateDirectory(Path.of(args[2]))
            .listener(beginning)
            .build()
            .process(Integer.parseInt(args[3]));
    if (suspends) {
      running.suspend();
    } else {
      running.lock(Duration.ofMinutes(5));
    }
  }

  private static void waitToBeKilled() {
    try {
      new CountDownLatch(1).await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  public long pid() {
    return process.pid();
  }

  /** Kills it and waits until the kernel has taken its locks away. */
  @Override
  public void close() {
    process.destroyForcibly();
    try {
      if (!process.waitFor(30, TimeUnit.SECONDS)) {
        throw new IllegalStateException("the other controller does not die");
      }
      process.getInputStream().close();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
