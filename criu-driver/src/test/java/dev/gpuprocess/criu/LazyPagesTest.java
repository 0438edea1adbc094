package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Descriptors;
import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.CriuFeature;
import dev.gpuprocess.error.CriuUnavailableException;
import dev.gpuprocess.error.ImageMissingException;
import dev.gpuprocess.error.MissingCapabilityException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.Tls;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpMemory;
import dev.gpuprocess.spi.VetoException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.NullUnmarked;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that comes when a restored process asks for it, from a file or from another host. */
@NullUnmarked
class LazyPagesTest {

  private static final int MEBIBYTES = 24;

  /** Between two hosts that nobody else is on. */
  private static final int PORT = 2777;

  @TempDir Path directory;
  private RpcCriuDriver driver;
  private DumpDirectories site;

  @BeforeEach
  void makeSite() {
    RealCriu.assume();
    driver = new RpcCriuDriver();
    Assumptions.assumeTrue(
        driver.features().orElseThrow().contains(CriuFeature.LAZY_PAGES),
        "CRIU finds no userfaultfd in this kernel");
    site = DumpDirectories.in(directory.resolve("site"), driver);
  }

  /** One that nobody has on this host, where other programs are too. */
  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  private LazyPages helper() {
    return driver.lazyPages(
        new LazyPagesRequest(site.images(), site.work(), null, DumpDirectories.PATIENCE));
  }

  @Test
  void memoryComesFromTheImages_whenItIsAskedFor() {
    try (PatternProcess job = PatternProcess.start(directory.resolve("job"), MEBIBYTES)) {
      site.dump(job.identity(), DumpDirectories.dump().build());
      long descriptors = Descriptors.open(directory);
      try (LazyPages pages = helper()) {
        ProcessIdentity restored = site.restoreLazily(job.pid()).process();
        try {
          pages.await();
          assertEquals(job.right(), job.ask());
        } finally {
          Workload.end(restored);
        }
      }
      assertTrue(Descriptors.open(directory) <= descriptors);
    }
  }

  @Test
  void aProcessGoesOnElsewhere_beforeItsMemoryIsThere() throws Exception {
    try (LargePipes allowed = LargePipes.allow();
        TwoHosts hosts = TwoHosts.create(directory)) {
      migrate(hosts, null);
    }
  }

  @Test
  void aProcessGoesOnElsewhere_beforeItsMemoryIsThere_overTls() throws Exception {
    try (LargePipes allowed = LargePipes.allow();
        TwoHosts hosts = TwoHosts.create(directory)) {
      migrate(
          hosts,
          Certificates.authority(directory)
              .issue("both", TwoHosts.SENDER_ADDRESS, TwoHosts.RECEIVER_ADDRESS));
    }
  }

  @Test
  void aDumpThatCouldNotAnswer_isRefusedBeforeItBegins() {
    DumpMemory memory = DumpMemory.WHOLE.lazyPages(new PageEndpoint("127.0.0.1", PORT));
    try (LargePipes none = LargePipes.keepSmall();
        Workload workload = Workload.counter(directory)) {
      MissingCapabilityException e =
          assertThrows(
              MissingCapabilityException.class, () -> site.dump(workload.identity(), memory));
      assertTrue(e.getMessage().contains("pipe-max-size"), e.getMessage());
      workload.assertGoesOn();
    }
  }

  private void migrate(TwoHosts hosts, @Nullable Tls tls) throws Exception {
    DumpDirectories there = DumpDirectories.in(directory.resolve("there"), driver);
    CountDownLatch ready = new CountDownLatch(1);
    DumpListener listener =
        new DumpListener() {
          @Override
          public void pagesReady() {
            ready.countDown();
          }
        };
    DumpMemory memory =
        DumpMemory.WHOLE.lazyPages(new PageEndpoint(TwoHosts.SENDER_ADDRESS, PORT, tls));
    try (PatternProcess job =
        PatternProcess.start(directory.resolve("job"), MEBIBYTES, hosts::onSender)) {
      CompletableFuture<Void> dump =
          CompletableFuture.runAsync(
              () -> site.with(hosts.sender()).dump(job.identity(), memory, listener));
      dump.exceptionally(
          e -> {
            ready.countDown();
            return null;
          });
      assertTrue(ready.await(DumpDirectories.PATIENCE.toSeconds(), TimeUnit.SECONDS));
      assertFalse(dump.isDone(), () -> String.valueOf(dump.handle((v, e) -> e).join()));
      for (Path image : site.images("")) {
        Files.copy(image, there.images().resolve(image.getFileName()));
      }
      // The process stands still here until its memory is there, so it needs other pids there.
      try (LazyRestoreJvm arrival = hosts.arrive(there, job.pid(), PORT, tls)) {
        arrival.awaitDone();
        dump.get(DumpDirectories.PATIENCE.toSeconds(), TimeUnit.SECONDS);
        assertFalse(job.identity().isAlive());
        assertEquals(job.right(), job.ask());
        Figures.add(
            "criu migration: %d MiB as lazy pages%s, all right"
                .formatted(MEBIBYTES, tls == null ? "" : " over TLS"));
      }
    }
  }

  @Test
  void aDumpThatIsRefusedOnceItsPagesAreReady_leavesTheProcessRunning() throws IOException {
    DumpListener refusing =
        new DumpListener() {
          @Override
          public void pagesReady() throws VetoException {
            throw new VetoException("nobody wants them");
          }
        };
    DumpMemory memory = DumpMemory.WHOLE.lazyPages(new PageEndpoint("127.0.0.1", freePort()));
    try (LargePipes allowed = LargePipes.allow();
        Workload workload = Workload.counter(directory)) {
      CriuException e =
          assertThrows(CriuException.class, () -> site.dump(workload.identity(), memory, refusing));
      assertTrue(e.getMessage().contains("nobody wants them"), e.getMessage());
      workload.assertGoesOn();
    }
  }

  @Test
  void aStrangerWhoHangsUp_endsTheProcess_unlessThereIsTls() throws IOException {
    int port = freePort();
    DumpListener stranger =
        new DumpListener() {
          @Override
          public void pagesReady() throws VetoException {
            try {
              new Socket(InetAddress.getLoopbackAddress(), port).close();
            } catch (IOException e) {
              throw new VetoException("it does not listen: " + e.getMessage());
            }
          }
        };
    Tls tls = Certificates.authority(directory).issue("both", "127.0.0.1");
    DumpMemory secure = DumpMemory.WHOLE.lazyPages(new PageEndpoint("127.0.0.1", port, tls));
    DumpMemory open = DumpMemory.WHOLE.lazyPages(new PageEndpoint("127.0.0.1", port));
    try (LargePipes allowed = LargePipes.allow();
        Workload workload = Workload.counter(directory)) {
      CriuException e =
          assertThrows(CriuException.class, () -> site.dump(workload.identity(), secure, stranger));
      assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
      workload.assertGoesOn();
      DumpDirectories again = DumpDirectories.in(directory.resolve("again"), driver);
      again.dump(workload.identity(), open, stranger);
      assertFalse(workload.identity().isAlive());
    }
  }

  @Test
  void restore_withoutAHelper_isRefused() {
    try (Workload workload = Workload.counter(directory)) {
      site.dump(workload.identity(), DumpDirectories.dump().build());
      CriuUnavailableException e =
          assertThrows(CriuUnavailableException.class, () -> site.restoreLazily(workload.pid()));
      assertTrue(e.getMessage().contains("RpcCriuDriver.lazyPages"), e.getMessage());
    }
  }

  @Test
  void helper_forAHostThatDoesNotListen_failsAtAwait() {
    try (Workload workload = Workload.counter(directory)) {
      site.dump(workload.identity(), DumpDirectories.backup().build());
    }
    // The helper has to be ready before, also on a slow machine.
    LazyPagesRequest request =
        new LazyPagesRequest(
            site.images(), site.work(), new PageEndpoint("127.0.0.1", 1), Duration.ofSeconds(3));
    // It connects when a restore has come, so it waits for one.
    try (LazyPages pages = driver.lazyPages(request)) {
      assertThrows(OperationTimedOutException.class, pages::await);
    }
  }

  @Test
  void helper_withoutImages_isRefused() {
    assertThrows(ImageMissingException.class, this::helper);
  }
}
