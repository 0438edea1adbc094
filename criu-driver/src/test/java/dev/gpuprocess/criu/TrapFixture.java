package dev.gpuprocess.criu;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.error.Fate;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The fixture of a trap.
 *
 * @param directory a directory of its own
 * @param driver the driver, with the real CRIU
 */
record TrapFixture(Path directory, RpcCriuDriver driver) {

  DumpDirectories site(String name) {
    return DumpDirectories.in(directory.resolve(name), driver);
  }

  Workload counter() {
    return Workload.counter(directory);
  }

  /** A perl program that makes the file {@code $ARGV[0]} when it is ready. */
  Workload perl(String program) {
    Path ready = directory.resolve("ready");
    Workload workload = Workload.of("perl", "-e", program, ready.toString());
    Workload.await(() -> Files.exists(ready), "the program to be ready");
    return workload;
  }

  /** The real CRIU, started by a script after these lines. */
  Path wrapped(String... lines) {
    return FakeCriu.write(
        directory.resolve("wrapped").resolve("criu"),
        "#!/bin/sh\n%s\nexec %s \"$@\"\n".formatted(String.join("\n", lines), RawCriu.program()));
  }

  /** Returns the request that a driver sends; the reply is a failure. */
  criu_req sentBy(Trap.Proof something) {
    Path file = directory.resolve("request");
    String scenario =
        "open my $f, '>:raw', '%s' or die; print $f $request; close $f; reply($type, 0)"
            .formatted(file);
    Path recorder = FakeCriu.create(directory.resolve("recorder"), scenario);
    TrapFixture recorded =
        new TrapFixture(directory.resolve("recorder"), new RpcCriuDriver(recorder));
    assertThrows(GpuCheckpointException.class, () -> something.show(recorded));
    try {
      return criu_req.parseFrom(Files.readAllBytes(file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns the request that the driver sends for a dump. */
  criu_req sentDump() {
    try (Workload counter = counter()) {
      return sentBy(
          recorded ->
              recorded.site("sent").dump(counter.identity(), DumpDirectories.backup().build()));
    }
  }

  /** A dump fails with this type and reason, and the process counts on. */
  <T extends GpuCheckpointException> T failedDump(
      Class<T> type,
      GpuCheckpointException.Reason reason,
      DumpDirectories site,
      Workload counter,
      DumpOptions options,
      DumpListener listener) {
    T e = failedDump(type, site, counter, options, listener);
    assertEquals(reason, e.reason(), e.getMessage());
    return e;
  }

  /** A dump fails with this type, and the process counts on. */
  <T extends GpuCheckpointException> T failedDump(
      Class<T> type,
      DumpDirectories site,
      Workload counter,
      DumpOptions options,
      DumpListener listener) {
    T e = assertThrows(type, () -> site.dump(counter.identity(), options, listener));
    assertEquals(Fate.RUNNING_AGAIN, e.failure().fate(), e.getMessage());
    assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
    counter.assertGoesOn();
    return e;
  }

  /** A dump is refused before CRIU is started, and the process was not touched. */
  ImageException refusedDump(ImageException.Reason reason, DumpDirectories site, Workload counter) {
    ImageException e =
        assertReason(
            ImageException.class,
            reason,
            () -> site.dump(counter.identity(), DumpDirectories.dump().build()));
    assertTrue(e.getMessage().contains("did not begin"), e.getMessage());
    counter.assertGoesOn();
    return e;
  }

  /** A restore fails with this type and reason, and nothing is left of it. */
  <T extends GpuCheckpointException> T failedRestore(
      Class<T> type, GpuCheckpointException.Reason reason, DumpDirectories site, int pid) {
    T e = assertReason(type, reason, () -> site.restore(pid, DumpDirectories.shellJob().build()));
    assertNotEquals(Fate.UNKNOWN, e.failure().fate(), e.getMessage());
    assertNothingLeft(pid);
    return e;
  }

  static void assertNothingLeft(int pid) {
    assertTrue(ProcFs.stat(pid).map(ProcStat::isDead).orElse(true), () -> pid + " is there");
  }

  /** A process that CRIU has killed may take a moment to die. */
  static void awaitNothingLeft(int pid) {
    Workload.await(
        () -> ProcFs.stat(pid).map(ProcStat::isDead).orElse(true), "process " + pid + " to die");
  }

  /** Waits until a pid can be used again. Init may take two seconds for that. */
  static void awaitFree(int pid) {
    Workload.await(() -> ProcessIdentity.of(pid).isEmpty(), "init to reap " + pid);
  }
}
