package dev.gpuprocess.examples.benchmarks;

import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * A process that holds memory of random bytes, which nothing between it and the disk can shrink.
 */
final class BenchSubject implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final long PAUSE_NANOS = 1_000_000;

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
        throw new IOException("there is no room for a process of " + mebibytes + " MiB");
      }
    }
    return new BenchSubject(process);
  }

  int pid() {
    return Math.toIntExact(started.pid());
  }

  void awaitFree() {
    await(() -> ProcessIdentity.of(pid()).isEmpty(), "its pid to be free");
  }

  void requireRestored() {
    await(() -> ProcessIdentity.of(pid()).filter(ProcessIdentity::isAlive).isPresent(), "it to be");
  }

  private static void await(BooleanSupplier condition, String what) {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > end) {
        throw new IllegalStateException("waited in vain for " + what);
      }
      LockSupport.parkNanos(PAUSE_NANOS);
    }
  }

  @Override
  public void close() {
    started.destroyForcibly();
    ProcessHandle.of(pid()).ifPresent(ProcessHandle::destroyForcibly);
    await(() -> ProcessIdentity.of(pid()).isEmpty(), "it to end");
  }
}
