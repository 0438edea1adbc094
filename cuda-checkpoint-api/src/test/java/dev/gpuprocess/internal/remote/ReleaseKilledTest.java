package dev.gpuprocess.internal.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.fixtures.Counter;
import dev.gpuprocess.fixtures.SimulatedDriver;
import dev.gpuprocess.internal.inherited.GpuHandles;
import dev.gpuprocess.internal.inherited.GpuRelease;
import dev.gpuprocess.internal.inherited.Inheritance;
import dev.gpuprocess.internal.inherited.ReleaseKills;
import dev.gpuprocess.internal.inherited.Released;
import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.Ptrace;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.report.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The controller ends while it releases the device files that forked loaders inherited. */
@RequiresRoot("traces processes")
@Tag("slow")
class ReleaseKilledTest {

  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final int LOADERS = 12;
  private static final int KILLS = 20;

  private static final class Killed extends Error {
    private static final long serialVersionUID = 1;
  }

  /** The kernel treats a tracer that ends like one that is killed. */
  private static int release(ProcessIdentity child, Inheritance inheritance, int most)
      throws Exception {
    AtomicInteger made = new AtomicInteger();
    int nothing = Libc.open(Path.of("/dev/null"), Libc.O_RDWR);
    try {
      Released unused =
          StoppedThreads.during(
              child,
              LIMIT,
              GpuRelease.work(child, inheritance, nothing),
              () ->
                  new Ptrace(
                      request -> {
                        if (made.incrementAndGet() > most) {
                          throw new Killed();
                        }
                      }));
    } finally {
      Descriptors.close(nothing);
    }
    return made.get();
  }

  private static List<Integer> numbers(ProcessIdentity child) {
    return ProcFs.openFiles(child.pid()).stream().map(OpenFile::number).sorted().toList();
  }

  private static boolean isTraced(ProcessIdentity child) {
    return ProcFs.tracer(child.pid()).isPresent();
  }

  @Test
  void childrenAndParentGoOnWhenTheTracerEndsAtAnyRequest() throws Exception {
    long seed = System.nanoTime();
    Random random = new Random(seed);
    try (SimulatedDriver machine = SimulatedDriver.builder().gpus(2).memory(1L << 30).create();
        Counter trainer = Counter.start(machine)) {
      List<ProcessIdentity> loaders = ReleaseKills.loaders(trainer, LOADERS);
      Inheritance inheritance = new Inheritance(ProcessIdentity.of(trainer.pid()).orElseThrow());
      int requests = release(loaders.get(0), inheritance, Integer.MAX_VALUE);
      assertTrue(requests > KILLS, requests + " requests");

      int killed = 0;
      for (int i = 0; i < KILLS; i++) {
        ProcessIdentity loader = loaders.get(1 + i % (LOADERS - 1));
        List<Integer> before = numbers(loader);
        try {
          int unused = release(loader, inheritance, random.nextInt(requests));
        } catch (Killed expected) {
          killed++;
        }
        Workload.await(() -> !isTraced(loader), "the kernel to let go, seed " + seed);
        ReleaseKills.requireTraffic(trainer);
        Workload.await(
            () -> before.equals(numbers(loader)),
            "the descriptors %s of %s, seed %s".formatted(before, loader, seed));
      }

      assertTrue(killed > LOADERS / 2, "killed %s times, seed %s".formatted(killed, seed));
      for (ProcessIdentity loader : loaders) {
        int unused = release(loader, inheritance, Integer.MAX_VALUE);
        assertTrue(GpuHandles.of(loader.pid(), () -> {}).isEmpty(), loader + ", seed " + seed);
      }
      ReleaseKills.requireTraffic(trainer);
      assertEquals(101, trainer.increment());
    }
  }

  @Test
  @Timeout(240)
  void childrenAndParentGoOnWhenTheControllerIsKilled() throws Exception {
    int kills = Integer.getInteger("gpuprocess.release.kills", 3);

    assertEquals(0, ReleaseKills.run(kills, System.nanoTime()));
  }
}
