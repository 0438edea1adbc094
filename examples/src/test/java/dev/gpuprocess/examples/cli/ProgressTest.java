package dev.gpuprocess.examples.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.GpuCheckpoints;
import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.Fault;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.fixtures.SimulatedGpu;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.report.Step;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The progress line. */
@SimulatedGpu
class ProgressTest {

  private static final long GIB = 1L << 30;

  @TempDir private Path directory;

  @Test
  void lineHasBytesRateAndTimeLeft() {
    assertEquals("write            2.00 s", Progress.line("write", 2, 0, 0));
    assertEquals("write            2.00 s  of 8.0 GiB", Progress.line("write", 2, 0, 8 * GIB));
    assertEquals(
        "write            2.00 s  1.0 GiB  512.0 MiB/s", Progress.line("write", 2, GIB, 0));
    assertEquals(
        "write            2.00 s  [#####               ]  1.0 GiB  512.0 MiB/s  6 s left",
        Progress.line("write", 2, GIB, 4 * GIB));
    // More than was expected.
    assertEquals(
        "write            2.00 s  [####################]  1.0 GiB  512.0 MiB/s  0 s left",
        Progress.line("write", 2, GIB, GIB / 2));
  }

  /** The process is suspended until the listener returns. */
  @Test
  void stepsDoNotWaitForTheMeasurementOfBytes() throws Exception {
    CountDownLatch measured = new CountDownLatch(1);
    CountDownLatch released = new CountDownLatch(1);
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    try (Progress progress =
        new Progress(new PrintStream(printed, true, StandardCharsets.UTF_8), true)) {
      progress.expect(
          GIB,
          () -> {
            measured.countDown();
            await(released);
            return 1;
          });
      progress.started("write", 7);
      assertTrue(measured.await(10, TimeUnit.SECONDS));
      CompletableFuture.runAsync(
              () -> {
                progress.finished(new Step("write", 7, Duration.ofSeconds(2), 0, ""));
                progress.started("seal", 7);
              })
          .get(10, TimeUnit.SECONDS);
      assertEquals("write            2.00 s\n", printed.toString(StandardCharsets.UTF_8));
    } finally {
      released.countDown();
    }
  }

  @Test
  void measuresOnlyTheImageThatThisJvmWrites() throws Exception {
    Path image = directory.resolve("image");
    LongSupplier moved = Moved.intoImage(image);
    assertEquals(0, moved.getAsLong());
    ProcessIdentity process = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
    write(directory.resolve("other/file"), 1);
    DirectoryMaker ended = DirectoryMaker.current().ended();
    write(directory.resolve(new StagingName(ended, process).text()).resolve("file"), 2);
    Path partial = directory.resolve(StagingName.of(process).text());
    write(partial.resolve("images/file"), 4);
    assertEquals(4, moved.getAsLong());
    Files.move(partial, image);
    assertEquals(4, moved.getAsLong());
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException closed) {
      Thread.currentThread().interrupt();
    }
  }

  private static void write(Path file, int bytes) throws IOException {
    Files.createDirectories(file.getParent());
    Files.write(file, new byte[bytes]);
  }

  /** The same command with a terminal, which the program script makes, and without. */
  @Test
  void isShownOnATerminalOnly(GpuCheckpoints machine, SimulatedDriver driver, Counter counter)
      throws Exception {
    driver.faults(Fault.in("cuCheckpointProcessCheckpoint").hangs());
    String command = String.join(" ", Call.program(driver, machine, List.of()));
    Process suspend =
        started("script", "-qefc", command + " suspend " + counter.pid(), "/dev/null");
    assertTrue(Await.until(Duration.ofMinutes(3), () -> text().contains("s left")), this::text);
    driver.clearFaults();
    String shown = output(suspend);
    // A carriage return ends a line here, too.
    assertTrue(shown.lines().anyMatch(each -> each.matches("checkpoint .* s left *")), shown);
    assertTrue(shown.lines().anyMatch(each -> each.matches("checkpoint .* [MG]iB/s")), shown);
    String last = shown.lines().filter(each -> !each.isBlank()).reduce((a, b) -> b).orElseThrow();
    assertTrue(last.startsWith("process " + counter.pid() + ": running -> checkpointed"), shown);
    String plain = output(started("sh", "-c", command + " resume " + counter.pid()));
    assertEquals(1, plain.lines().count(), plain);
    assertFalse(plain.contains("\r"), plain);
    assertEquals(101, counter.increment());
  }

  private Process started(String... command) throws IOException {
    return new ProcessBuilder(command)
        .redirectInput(new File("/dev/null"))
        .redirectErrorStream(true)
        .redirectOutput(directory.resolve("output").toFile())
        .start();
  }

  private String output(Process process) throws InterruptedException {
    assertTrue(process.waitFor(180, TimeUnit.SECONDS));
    assertEquals(0, process.exitValue(), this::text);
    return text();
  }

  private String text() {
    try {
      return Files.readString(directory.resolve("output"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
