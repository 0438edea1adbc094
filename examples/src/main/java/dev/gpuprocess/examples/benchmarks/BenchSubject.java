package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.examples.demo.Await;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.BooleanSupplier;

/** A process that holds random bytes, which no layer down to the disk can compress. */
final class BenchSubject implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private static final String PROGRAM =
      """
      open my $random, '<:raw', '/dev/urandom' or die;
      my $memory = '';
      sysread $random, $memory, 1 << 20, length $memory for 1 .. $ARGV[0];
      syswrite STDOUT, 'r'; open STDOUT, '>', '/dev/null';
      sleep 1000 while 1;
      """;

  private final Process started;

  private BenchSubject(Process started) {
    this.started = started;
  }

  static BenchSubject start(int mebibytes) throws IOException {
    Process process =
        new ProcessBuilder("setsid", "perl", "-e", PROGRAM, Integer.toString(mebibytes))
            .redirectInput(Path.of("/dev/null").toFile())
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    try (InputStream ready = process.getInputStream()) {
      if (ready.read() < 0) {
        throw new IOException(
            "a process of " + mebibytes + " MiB did not start: not enough memory");
      }
    }
    return new BenchSubject(process);
  }

  int pid() {
    return Math.toIntExact(started.pid());
  }

  void awaitFree() {
    await(() -> ProcessIdentity.of(pid()).isEmpty(), "the pid was not free");
  }

  void requireRestored() {
    await(
        () -> ProcessIdentity.of(pid()).filter(ProcessIdentity::isAlive).isPresent(),
        "the process was not restored");
  }

  private static void await(BooleanSupplier condition, String what) {
    if (!Await.until(PATIENCE, condition)) {
      throw new IllegalStateException(what + " within " + PATIENCE);
    }
  }

  @Override
  public void close() {
    started.destroyForcibly();
    ProcessHandle.of(pid()).ifPresent(ProcessHandle::destroyForcibly);
    await(() -> ProcessIdentity.of(pid()).isEmpty(), "the process did not exit");
  }
}
