package dev.gpuprocess.survival;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.gpuprocess.criu.TestTools;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;

/**
 * Keeps a process from being gone after it was killed, as a kernel does that has much memory to
 * tear down. Closing lets it go.
 */
public final class HeldExit implements AutoCloseable {

  private final Process holder;

  private HeldExit(Process holder) {
    this.holder = holder;
  }

  /** Compiles the program that holds a process at its exit. */
  public static Path program(Path directory) {
    return TestTools.compile(HeldExit.class, "holds-exit", directory);
  }

  /** From now on a killed process stays at its exit. */
  public static HeldExit of(Path program, int pid) {
    try {
      Process holder =
          new ProcessBuilder(program.toString(), Integer.toString(pid))
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      BufferedReader out = holder.inputReader();
      assertEquals("ready", out.readLine());
      return new HeldExit(holder);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    try {
      holder.getOutputStream().close();
      holder.waitFor();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
