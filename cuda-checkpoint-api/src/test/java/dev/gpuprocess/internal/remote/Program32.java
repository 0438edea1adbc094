package dev.gpuprocess.internal.remote;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;

/**
 * A 32-bit program that calls {@code pause} without end. Its bytes are written here, since tools
 * for 32-bit programs are seldom installed.
 */
final class Program32 {

  private static final String HEADERS =
      "7f454c46010101000000000000000000"
          + "02000300010000005480040834000000"
          + "00000000000000003400200001000000"
          + "00000000"
          + "0100000000000000008004080080040860000000600000000500000000100000";

  private static final String PAUSE = "b81d000000cd80ebf7000000";

  /**
   * {@code hlt}: the program is killed at its first instruction, as by a kernel that loads 32-bit
   * programs but cannot run them.
   */
  private static final String KILLED = "f41d000000cd80ebf7000000";

  /** The value {@code killed} makes this machine behave as one that runs no 32-bit programs. */
  private static final String STAND_IN = "GPUPROCESS_32_BIT";

  private Program32() {}

  /**
   * Starts the program. Skips the test, with the reason, on a kernel that runs no 32-bit programs.
   *
   * @param directory of its file
   */
  static Process start(Path directory) throws IOException, InterruptedException {
    return start(directory, "killed".equals(System.getenv(STAND_IN)) ? KILLED : PAUSE);
  }

  /** Starts the program as on a kernel that kills such programs. */
  static Process startKilled(Path directory) throws IOException, InterruptedException {
    return start(directory, KILLED);
  }

  private static Process start(Path directory, String code)
      throws IOException, InterruptedException {
    Path file = directory.resolve("program");
    Files.write(file, HexFormat.of().parseHex(HEADERS + code));
    if (!file.toFile().setExecutable(true)) {
      throw new IOException(file + " cannot be made executable");
    }
    Process process;
    try {
      process = new ProcessBuilder(file.toString()).start();
    } catch (IOException e) {
      return Assumptions.abort("this kernel runs no 32-bit programs: " + e.getMessage());
    }
    int pid = Math.toIntExact(process.pid());
    Workload.await(
        () -> !process.isAlive() || ProcFs.stat(pid).filter(now -> now.state() == 'S').isPresent(),
        "the program to pause");
    // The JDK notices the end of a killed process only later.
    if (process.waitFor(0, TimeUnit.SECONDS)
        || ProcFs.stat(pid).filter(now -> !now.isDead()).isEmpty()) {
      return Assumptions.abort(
          "this kernel runs no 32-bit programs: one that pauses ended at once, exit code "
              + process.waitFor());
    }
    return process;
  }
}
