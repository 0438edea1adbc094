package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.options.Cancellation;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Starts the command line on the GPUs of this machine. */
public final class Main {

  /** The name by which the program was called; bin/gpuprocess sets it. */
  private static final String NAME = "gpuprocess.name";

  /** The progress line shows the steps that the library logs. */
  private static final String LOG_LEVEL = "org.slf4j.simpleLogger.defaultLogLevel";

  /** Whether JNR generates code for each native function. */
  private static final String GENERATED_CODE = "jnr.ffi.asm.enabled";

  private static final List<String> LOOKS = List.of("state", "ps");

  private Main() {}

  /**
   * Runs a command and exits with its {@link ExitCode}. SIGINT and SIGTERM cancel the command: it
   * prints where the process was left, and the exit code is 130 or 143.
   *
   * @param args the command and its arguments
   */
  public static void main(String[] args) {
    if (System.getProperty(LOG_LEVEL) == null) {
      System.setProperty(LOG_LEVEL, "warn");
    }
    // A look calls few functions: the code that JNR generates to call them takes longer than it
    // saves.
    if (args.length > 0 && LOOKS.contains(args[0]) && System.getProperty(GENERATED_CODE) == null) {
      System.setProperty(GENERATED_CODE, "false");
    }
    String name = System.getProperty(NAME, CommandLineTool.NAME);
    if (CompatibleForms.NAMES.contains(name)) {
      CompatibleForms forms =
          new CompatibleForms(GpuCheckpoints.standard().cuda(), System.out, System.err);
      System.exit(forms.run(name, List.of(args)));
    }
    Cancellation cancellation = new Cancellation();
    CountDownLatch done = new CountDownLatch(1);
    Thread worker = Thread.currentThread();
    Thread hook =
        new Thread(
            () -> {
              if (done.getCount() > 0) {
                cancellation.cancel();
                worker.interrupt();
                await(done);
              }
            },
            "gpuprocess cancel");
    Runtime.getRuntime().addShutdownHook(hook);
    int code = 1;
    try {
      code =
          new CommandLineTool(GpuCheckpoints::standard, cancellation, System.out, System.err)
              .run(List.of(args));
    } finally {
      System.out.flush();
      System.err.flush();
      done.countDown();
    }
    System.exit(code);
  }

  /** The verb has its own bounds, and must not be left half way by an exit. */
  private static void await(CountDownLatch done) {
    try {
      done.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
