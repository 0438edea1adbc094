package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.PidTakenException;
import dev.gpuprocess.error.RetryLaterException;
import dev.gpuprocess.fixtures.Specimen;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreListener;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.NullUnmarked;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** CRIU reports a taken pid, as on a busy machine, although no process has it. */
@NullUnmarked
class PidNotYetFreeTest {

  /** Answers restores with EEXIST as often as the file requests; otherwise runs the real CRIU. */
  private static final String REFUSING =
      """
      #!/usr/bin/perl
      use strict; use Socket; BEGIN { $^F = 255 }
      open my $socket, '+<&=', $ARGV[-1] or die $!;
      recv $socket, my $request, 1 << 20, MSG_PEEK;
      my ($RESTORE, $EEXIST) = (2, 17);
      open my $file, '+<', "$0.refusals" or die $!;
      my $left = <$file>;
      exec '%s', @ARGV if $left == 0 || $RESTORE != ord substr $request, 1, 1;
      seek $file, 0, 0; print $file $left - 1; close $file;
      sysread $socket, $request, 1 << 20;
      syswrite $socket, pack 'C*', 1 << 3, $RESTORE, 2 << 3, 0, 7 << 3, $EEXIST;
      """;

  @TempDir Path directory;
  private DumpDirectories site;
  private int pid;

  @BeforeEach
  void dump() {
    RealCriu.assume();
    site = DumpDirectories.in(directory.resolve("site"), new RpcCriuDriver(RawCriu.program()));
    try (Workload counter = Workload.counter(directory)) {
      site.dump(counter.identity(), DumpDirectories.dump().build());
      pid = counter.pid();
    }
  }

  private DumpDirectories refusing(int restores) throws Exception {
    Path program =
        FakeCriu.write(
            directory.resolve("refusing").resolve("criu"), REFUSING.formatted(RawCriu.program()));
    Files.writeString(program.resolveSibling("criu.refusals"), restores + "\n");
    return site.with(new RpcCriuDriver(program));
  }

  @Test
  void theRestoreWaitsForThePid() throws Exception {
    AtomicInteger begun = new AtomicInteger();
    RestoreListener listener =
        new RestoreListener() {
          @Override
          public void preRestore() {
            begun.incrementAndGet();
          }
        };
    ProcessIdentity restored =
        refusing(3).restore(pid, DumpDirectories.shellJob().build(), listener).process();
    try {
      assertEquals(pid, restored.pid());
      assertEquals(1, begun.get());
    } finally {
      Workload.end(restored);
    }
  }

  @Test
  void untilItsDeadline() throws Exception {
    RestoreOptions options = DumpDirectories.shellJob().deadline(Duration.ofSeconds(1)).build();
    // Which of the two depends on where the deadline finds it.
    RetryLaterException e =
        assertThrows(RetryLaterException.class, () -> refusing(1000).restore(pid, options));
    assertTrue(
        e instanceof OperationTimedOutException
            || e.getMessage().contains("the kernel has not released yet"),
        e.getMessage());
    TrapFixture.assertNothingLeft(pid);
  }

  /** Creates a child with this pid: clone3 with set_tid takes it without a race. */
  private static final String TAKE =
      """
      my ($wanted, $ready) = @ARGV;
      my ($CLONE3, $SIGCHLD) = (435, 17);
      my $numbers = pack 'i', $wanted;
      my $arguments = pack 'Q5 Q3 J Q2', 0, 0, 0, 0, $SIGCHLD, 0, 0, 0, unpack('J', pack 'P', $numbers), 1, 0;
      my $child;
      do { # the kernel may not have released it yet
        $child = syscall $CLONE3, $arguments, length $arguments;
      } while ($child == -1 && $!{EEXIST} && select(undef, undef, undef, 0.01) == 0);
      die "clone3: $!" if $child == -1;
      if ($child == 0) { sleep 100; exit; }
      open my $file, '>', $ready or die $!; close $file;
      waitpid $child, 0;
      """;

  @Test
  void theIdOfAThreadIsAnotherProcesss() throws Exception {
    Specimen.Kind threads =
        Specimen.kinds().stream().filter(kind -> kind.name().equals("threads")).findAny().get();
    Path ready = directory.resolve("ready");
    DumpDirectories other = DumpDirectories.in(directory.resolve("other"), new RpcCriuDriver());
    int threaded;
    int thread;
    try (Specimen specimen = Specimen.start(threads, directory)) {
      threaded = specimen.pid();
      thread =
          ProcFs.tasks(threaded).stream()
              .mapToInt(ProcStat::pid)
              .filter(task -> task != specimen.pid())
              .findFirst()
              .orElseThrow();
      other.dump(ProcessIdentity.of(threaded).orElseThrow(), DumpDirectories.dump().build());
    }
    Process taker =
        new ProcessBuilder("perl", "-e", TAKE, Integer.toString(thread), ready.toString()).start();
    try {
      Workload.await(() -> Files.exists(ready), "the id of the thread to be taken");
      PidTakenException e =
          assertThrows(
              PidTakenException.class,
              () -> other.restore(threaded, DumpDirectories.shellJob().build()));
      assertTrue(e.getMessage().contains("the ids that its threads had"), e.getMessage());
      TrapFixture.assertNothingLeft(threaded);
    } finally {
      taker.descendants().forEach(ProcessHandle::destroyForcibly);
      taker.waitFor(); // it reaps it
    }
    Path half = Path.of("/proc", Integer.toString(threaded));
    Workload.await(() -> Files.notExists(half), "init to reap what was half restored");
    Workload.end(other.restore(threaded, DumpDirectories.shellJob().build()).process());
  }
}
