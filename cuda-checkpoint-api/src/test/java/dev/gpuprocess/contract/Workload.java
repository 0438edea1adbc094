package dev.gpuprocess.contract;

import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;

/**
 * A small process that counts in its memory and writes the number to a file, so that a test sees
 * whether it continues where it was. Needs perl. Closing ends it, also after a restore.
 */
public final class Workload implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  // The file keeps its size: CRIU checks that at restore.
  private static final String COUNTER =
      """
      use POSIX ();
      $SIG{HUP} = 'IGNORE';
      my ($file, $mebibytes) = @ARGV;
      my $memory = 'x' x ($mebibytes << 20);
      open my $out, '>', $file or die "$file: $!";
      for (my $i = 1;; $i++) {
        sysseek $out, 0, 0;
        syswrite $out, sprintf "%010d", $i;
        select undef, undef, undef, 0.005;
      }
      """;

  private final Process process;
  private final ProcessIdentity identity;
  private final Path counter;

  private Workload(Process process, Path counter) {
    this.process = process;
    this.counter = counter;
    this.identity = ProcessIdentity.of(process.pid()).orElseThrow();
  }

  /**
   * Starts counting.
   *
   * @param directory where its file goes
   * @return the process, counting
   */
  public static Workload counter(Path directory) {
    return counter(directory, 0);
  }

  /**
   * Starts counting.
   *
   * @param directory where its file goes
   * @param mebibytes memory to hold
   * @return the process, counting
   */
  public static Workload counter(Path directory, int mebibytes) {
    Path file = directory.resolve("counter-" + System.nanoTime());
    Workload workload =
        start(file, "perl", "-e", COUNTER, file.toString(), Integer.toString(mebibytes));
    await(() -> workload.count() > 0, "the workload to count");
    return workload;
  }

  /**
   * Starts any program.
   *
   * @param command the program and its arguments
   * @return the process
   */
  public static Workload of(String... command) {
    return start(Path.of("/dev/null"), command);
  }

  private static Workload start(Path counter, String... command) {
    try {
      List<String> words = new ArrayList<>(List.of(command));
      Process process =
          new ProcessBuilder(words)
              .redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()))
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      return new Workload(process, counter);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Returns its identity. After a restore the pid is the same and the start time differs.
   *
   * @return pid and start time
   */
  public ProcessIdentity identity() {
    return identity;
  }

  /**
   * Its pid.
   *
   * @return a number
   */
  public int pid() {
    return identity.pid();
  }

  /**
   * How far it has counted.
   *
   * @return the number in its file; 0 before it has written one
   */
  public long count() {
    try {
      String text = Files.exists(counter) ? Files.readString(counter).strip() : "";
      return text.isEmpty() ? 0 : Long.parseLong(text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Waits until it has counted on by a few.
   *
   * @throws AssertionError when it does not
   */
  public void assertGoesOn() {
    long before = count();
    await(() -> count() > before + 3, "process " + pid() + " to count on from " + before);
  }

  /**
   * Waits for a condition.
   *
   * @param condition the condition
   * @param what for the message
   * @throws AssertionError when it does not come true
   */
  public static void await(BooleanSupplier condition, String what) {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) {
        throw new AssertionError("waited " + PATIENCE.toSeconds() + " s in vain for " + what);
      }
      Thread.onSpinWait();
      java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
    }
  }

  /**
   * Ends a process that a test has restored.
   *
   * @param restored who it is
   */
  public static void end(ProcessIdentity restored) {
    if (restored.pid() > 1 && restored.isAlive()) {
      ProcessHandle.of(restored.pid()).ifPresent(ProcessHandle::destroyForcibly);
      await(() -> !restored.isAlive(), "process " + restored.pid() + " to end");
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
    try {
      process.waitFor();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
