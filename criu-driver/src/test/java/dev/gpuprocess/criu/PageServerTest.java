package dev.gpuprocess.criu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.Descriptors;
import dev.gpuprocess.contract.Figures;
import dev.gpuprocess.contract.Workload;
import dev.gpuprocess.error.CriuException;
import dev.gpuprocess.error.ImageDirectoryException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.options.PageEndpoint;
import dev.gpuprocess.options.Tls;
import dev.gpuprocess.process.ProcessIdentity;
import dev.gpuprocess.spi.DumpListener;
import dev.gpuprocess.spi.DumpMemory;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.NullUnmarked;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Memory that travels to another host while the process is dumped. */
@NullUnmarked
class PageServerTest {

  private static final int MEBIBYTES = 24;

  @TempDir Path directory;
  private DumpDirectories here;
  private Path received;
  private Path work;

  @BeforeEach
  void makeDirectories() throws IOException {
    RealCriu.assume();
    here = DumpDirectories.in(directory.resolve("here"), new RpcCriuDriver());
    received = Files.createDirectory(directory.resolve("received"));
    work = Files.createDirectory(directory.resolve("work"));
  }

  private PageServerRequest listen(String address, @Nullable Tls tls) {
    return new PageServerRequest(
        received, work, new PageEndpoint(address, 0, tls), DumpDirectories.PATIENCE);
  }

  private PageServer local() {
    return ((RpcCriuDriver) here.driver()).pageServer(listen("127.0.0.1", null));
  }

  private static DumpListener letGoOnceReceived(PageServer server) {
    return new DumpListener() {
      @Override
      public void postDump() {
        server.await();
      }
    };
  }

  /** What a user does with rsync: everything but the pages. */
  private void bringTheRest() throws IOException {
    for (Path image : here.images("")) {
      Files.copy(image, received.resolve(image.getFileName()));
    }
  }

  private void migrate(TwoHosts hosts, @Nullable Tls sending, @Nullable Tls receiving)
      throws IOException {
    try (PatternProcess job =
            PatternProcess.start(directory.resolve("job"), MEBIBYTES, hosts::onSender);
        PageServer server =
            hosts.receiver().pageServer(listen(TwoHosts.RECEIVER_ADDRESS, receiving))) {
      PageEndpoint there = server.endpoint();
      DumpMemory memory = new DumpMemory(new PageEndpoint(there.host(), there.port(), sending));
      here.with(hosts.sender()).dump(job.identity(), memory, letGoOnceReceived(server));
      assertFalse(job.identity().isAlive());
      assertEquals(List.of(), here.images("page"));
      assertEquals(job.pid(), here.driver().describe(here.images()).processes().get(0).pid());
      bringTheRest();
      DumpDirectories arrived = new DumpDirectories(hosts.receiver(), received, work);
      ProcessIdentity restored =
          arrived.restore(job.pid(), DumpDirectories.shellJob().build()).process();
      try {
        assertEquals(job.right(), job.ask());
        Figures.add(
            "criu migration: %d MiB through a page server%s, all right"
                .formatted(MEBIBYTES, sending == null ? "" : " over TLS"));
      } finally {
        Workload.end(restored);
      }
    }
  }

  @Test
  void aProcessGoesOn_onTheOtherHost() throws IOException {
    try (TwoHosts hosts = TwoHosts.create(directory)) {
      migrate(hosts, null, null);
    }
  }

  @Test
  void aProcessGoesOn_onTheOtherHost_overTls() throws IOException {
    try (TwoHosts hosts = TwoHosts.create(directory)) {
      Certificates authority = Certificates.authority(directory);
      Tls tls = authority.issue("both", TwoHosts.SENDER_ADDRESS, TwoHosts.RECEIVER_ADDRESS);
      migrate(hosts, tls, tls);
    }
  }

  @Test
  void aSenderWhoseCertificateIsOfAnotherAuthority_isTurnedAway_andItsProcessRunsOn()
      throws IOException {
    try (TwoHosts hosts = TwoHosts.create(directory)) {
      String[] addresses = {TwoHosts.SENDER_ADDRESS, TwoHosts.RECEIVER_ADDRESS};
      Tls ours = Certificates.authority(directory).issue("ours", addresses);
      Tls theirs =
          Certificates.authority(Files.createDirectory(directory.resolve("other")))
              .issue("theirs", addresses);
      try (PatternProcess job = PatternProcess.start(directory.resolve("job"), 1, hosts::onSender);
          PageServer server =
              hosts.receiver().pageServer(listen(TwoHosts.RECEIVER_ADDRESS, ours))) {
        PageEndpoint there = server.endpoint();
        DumpMemory memory = new DumpMemory(new PageEndpoint(there.host(), there.port(), theirs));
        DumpDirectories sender = here.with(hosts.sender());
        CriuException e =
            assertThrows(CriuException.class, () -> sender.dump(job.identity(), memory));
        assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
        assertThrows(CriuException.class, server::await);
        assertEquals(job.right(), job.ask());
      }
    }
  }

  @Test
  void aDumpThatNobodyListensTo_fails_andTheProcessRunsOn() throws IOException {
    try (Socket bound = new Socket();
        Workload workload = Workload.counter(directory)) {
      // Nobody else has the port meanwhile.
      bound.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      PageEndpoint there = new PageEndpoint("127.0.0.1", bound.getLocalPort());
      DumpMemory memory = new DumpMemory(there);
      CriuException e =
          assertThrows(CriuException.class, () -> here.dump(workload.identity(), memory));
      assertTrue(e.getMessage().contains("the process runs on"), e.getMessage());
      assertTrue(e.getMessage().contains("DumpMemory.pageServer"), e.getMessage());
      workload.assertGoesOn();
    }
  }

  @Test
  void aSenderThatGoesAway_isAFailure() throws IOException {
    try (PageServer server = local()) {
      new Socket(InetAddress.getLoopbackAddress(), server.endpoint().port()).close();
      CriuException e = assertThrows(CriuException.class, server::await);
      assertTrue(e.getMessage().contains("not flushed"), e.getMessage());
      assertThrows(IllegalStateException.class, server::await);
    }
  }

  @Test
  void aPortThatIsTaken_isRefused() {
    try (PageServer server = local()) {
      PageServerRequest same =
          new PageServerRequest(received, work, server.endpoint(), DumpDirectories.PATIENCE);
      CriuException e =
          assertThrows(CriuException.class, () -> ((RpcCriuDriver) here.driver()).pageServer(same));
      assertTrue(e.getMessage().contains("listen on another port"), e.getMessage());
    }
  }

  @Test
  void aDirectoryThatIsNotThere_isRefused() throws IOException {
    Files.delete(received);
    assertThrows(ImageDirectoryException.class, this::local);
  }

  @Test
  void nobodyComes_andTheDeadlineEndsIt() {
    // It has to listen before, also on a slow machine.
    PageServerRequest brief =
        new PageServerRequest(
            received, work, new PageEndpoint("127.0.0.1", 0), Duration.ofSeconds(3));
    try (PageServer server = ((RpcCriuDriver) here.driver()).pageServer(brief)) {
      assertThrows(OperationTimedOutException.class, server::await);
      Workload.await(() -> !server.process().isAlive(), "the server to end");
    }
  }

  @Test
  void close_wakesWhoeverWaits_andLeavesNothing() {
    here.driver().check(); // so that the libraries are loaded
    long descriptors = Descriptors.open(directory);
    PageServer server = local();
    CompletableFuture<Void> waiting = CompletableFuture.runAsync(server::await);
    server.close();
    Throwable e =
        assertThrows(java.util.concurrent.CompletionException.class, waiting::join).getCause();
    // It may not have begun to wait yet.
    assertTrue(
        e instanceof OperationCancelledException || e instanceof IllegalStateException,
        String.valueOf(e));
    Workload.await(() -> !server.process().isAlive(), "the server to end");
    assertTrue(Descriptors.open(directory) <= descriptors);
  }
}
