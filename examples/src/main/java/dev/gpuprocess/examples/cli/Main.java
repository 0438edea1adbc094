package dev.gpuprocess.examples.cli;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.options.Cancellation;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;

/** Starts the command line on the GPUs of this machine. */
public final class Main {

  /** The name by which the program was called; bin/gpuprocess sets it. */
  private static final String NAME = "gpuprocess.name";

  /** The progress line shows the steps that the library logs. */
  private static final String LOG_LEVEL = "org.slf4j.simpleLogger.defaultLogLevel";

  /** Whether JNR generates code for each native function. */
  private static final String GENERATED_CODE = "jnr.ffi.asm.enabled";

  private static final List<String> LOOKS = List.of("state", "ps");

  /** They copy the output of a command, and return its exit code. */
  private static final List<String> OUTPUTS = List.of("launch", "slurm");

  /** They end by a signal, or have an exit code of their own. */
  private static final List<String> LASTING =
      List.of("launch", "slurm", "agent", "slot", "--every");

  private static final long FLUSH_MILLIS = 1000;

  /** A service's log: when, how severe, who, what; and which jobs were moved. */
  private static final Map<String, String> LOG_OF_AGENT =
      Map.of(
          LOG_LEVEL,
          "info",
          "org.slf4j.simpleLogger.showDateTime",
          "true",
          "org.slf4j.simpleLogger.dateTimeFormat",
          "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
          "org.slf4j.simpleLogger.showThreadName",
          "false");

  private Main() {}

  private static void setDefaults(Map<String, String> properties) {
    properties.forEach(
        (name, value) -> {
          if (System.getProperty(name) == null) {
            System.setProperty(name, value);
          }
        });
  }

  /**
   * Runs a command and exits with its {@link ExitCode}. SIGINT and SIGTERM cancel the command: it
   * prints where the process was left, and the exit code is 130 or 143. If the command succeeds all
   * the same, the code is 0.
   *
   * @param args the command and its arguments
   */
  public static void main(String[] args) {
    if (args.length > 0 && args[0].equals("agent")) {
      setDefaults(LOG_OF_AGENT);
    } else {
      setDefaults(Map.of(LOG_LEVEL, "warn"));
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
    AtomicBoolean isComplete = new AtomicBoolean();
    Thread worker = Thread.currentThread();
    Thread hook =
        new Thread(
            () -> {
              if (done.getCount() > 0) {
                cancellation.cancel();
                worker.interrupt();
                await(done, worker);
                if (isComplete.get()) {
                  Runtime.getRuntime().halt(0); // the signal came too late to cancel anything
                }
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
      if (!isWritten() && code == 0 && !(args.length > 0 && OUTPUTS.contains(args[0]))) {
        System.err.println("gpuprocess: the result could not be written to the standard output");
        code = 1;
      }
      isComplete.set(code == 0 && Stream.of(args).noneMatch(LASTING::contains));
      done.countDown();
    }
    System.exit(code);
  }

  /**
   * Writes what is left of the output. A reader that reads nothing more must not keep the exit, so
   * this waits for a second at most.
   *
   * @return whether all output was written, or may still be
   */
  private static boolean isWritten() {
    AtomicBoolean failed = new AtomicBoolean();
    Thread flush =
        new Thread(
            () -> {
              failed.set(System.out.checkError());
              System.err.flush();
            },
            "gpuprocess flush");
    flush.setDaemon(true);
    flush.start();
    try {
      flush.join(FLUSH_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return !failed.get();
  }

  /**
   * Waits until the command has ended: a verb has its own bounds, and must not be left half way by
   * an exit. Gives up when its result has been printed for {@link #FLUSH_MILLIS} to a reader that
   * reads nothing more.
   */
  private static void await(CountDownLatch done, Thread worker) {
    try {
      int printing = 0;
      while (printing < 2 && !done.await(FLUSH_MILLIS, TimeUnit.MILLISECONDS)) {
        printing = isPrinting(worker) ? printing + 1 : 0;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static boolean isPrinting(Thread worker) {
    List<String> stack =
        Stream.of(worker.getStackTrace())
            .map(frame -> frame.getClassName() + "." + frame.getMethodName())
            .toList();
    return stack.contains("java.io.FileOutputStream.writeBytes")
        && stack.stream().anyMatch(frame -> frame.startsWith(Output.class.getName() + "."));
  }
}
