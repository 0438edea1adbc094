package dev.gpuprocess.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.gpuprocess.options.PageEndpoint;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Timeout;

/** Who refuses hangs up without reading on: a sender still hears why. */
@Timeout(60)
class LastWordTest {

  private static final String HERE = "127.0.0.1";
  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final String WHY = "no space left on device";

  /** Two ends of a connection. */
  private record Two(Wire sender, Wire receiver) implements AutoCloseable {

    static Two connected() throws IOException {
      try (Wires wires = Wires.listen(new PageEndpoint(HERE, 0), null)) {
        long end = System.nanoTime() + LIMIT.toNanos();
        CompletableFuture<Wire> accepted =
            CompletableFuture.supplyAsync(
                () -> {
                  try {
                    return wires.accept(end);
                  } catch (IOException e) {
                    throw new AssertionError("nobody came", e);
                  }
                });
        Wire sender = Wires.to(wires.here(), null, LIMIT, LIMIT);
        return new Two(sender, accepted.join());
      }
    }

    /** Says so, and closes with pages in its queue, so that the sender's next ones fail. */
    void refuse() {
      receiver.refuse(WHY);
      receiver.close();
    }

    @Override
    public void close() {
      sender.close();
      receiver.close();
    }
  }

  @RepeatedTest(5)
  void whoOnlySendsHearsIt() throws IOException {
    try (Two two = Two.connected()) {
      two.sender.send(Kind.DATA, new byte[100]);
      two.refuse();

      RefusedException refused =
          assertThrows(
              RefusedException.class,
              () -> {
                while (true) {
                  two.sender.send(Kind.DATA, new byte[1 << 16]);
                }
              });

      assertEquals(WHY, refused.getMessage());
    }
  }

  @RepeatedTest(20)
  void pagesAreRefusedWhicheverThreadNoticesFirst() throws IOException {
    try (Two two = Two.connected();
        ServerSocket criu = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      PageRelay relay =
          PageRelay.to(new PageEndpoint(HERE, criu.getLocalPort()), two.sender, Long.MAX_VALUE);
      try (relay;
          Socket pages = criu.accept()) {
        CompletableFuture<Void> endless =
            CompletableFuture.runAsync(
                () -> assertThrows(IOException.class, () -> write(pages), "it is cut"));
        assertEquals(Kind.PAGES, two.receiver.receive().kind());

        two.refuse();

        assertEquals(WHY, assertThrows(RefusedException.class, relay::await).getMessage());
        endless.join();
      }
    }
  }

  private static void write(Socket pages) throws IOException {
    while (true) {
      pages.getOutputStream().write(new byte[1 << 16]);
    }
  }
}
