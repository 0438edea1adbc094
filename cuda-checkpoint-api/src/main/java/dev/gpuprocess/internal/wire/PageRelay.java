package dev.gpuprocess.internal.wire;

import dev.gpuprocess.options.PageEndpoint;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Passes on what the CRIU of this host and that of the other say to each other, both ways. So
 * neither of them listens to anybody but its own host, and each takes the end of its connection for
 * the end of the transfer only if it is: when anything breaks, this JVM included, the connection to
 * it is reset.
 */
public final class PageRelay implements AutoCloseable {

  private static final int BUFFER_BYTES = 256 << 10;

  private interface Meeting {
    Socket meet() throws IOException;
  }

  private final Wire wire;
  private final long most;
  private final CountDownLatch ended = new CountDownLatch(2);
  private final AtomicReference<@Nullable IOException> broken = new AtomicReference<>();
  private @Nullable Socket local;
  private boolean closed;

  private PageRelay(Wire wire, long most) {
    this.wire = wire;
    this.most = most;
  }

  /**
   * Connects to the CRIU of this host and begins to pass on. Nobody else receives from the other
   * host until it has ended.
   *
   * @param there where that CRIU listens
   * @param most how much may come from the other host, in bytes
   */
  public static PageRelay to(PageEndpoint there, Wire wire, long most) throws IOException {
    PageRelay relay = new PageRelay(wire, most);
    Socket socket = new Socket(there.host(), there.port());
    relay.start(() -> socket);
    return relay;
  }

  /**
   * The same with a CRIU that is about to connect.
   *
   * @param port where it will; closed by whoever opened it, which ends the wait
   * @param until when it must have come
   */
  public static PageRelay at(LocalPort port, long until, Wire wire, long most) {
    PageRelay relay = new PageRelay(wire, most);
    relay.start(() -> port.accept(until));
    return relay;
  }

  private void start(Meeting meeting) {
    start(
        "to",
        () -> {
          Socket met;
          try {
            met = meet(meeting);
          } catch (IOException e) {
            ended.countDown();
            throw new IOException("the CRIU of this host did not come: " + e.getMessage(), e);
          }
          start("from", () -> deliver(met));
          passOn(met);
        });
  }

  private Socket meet(Meeting meeting) throws IOException {
    Socket met = meeting.meet();
    met.setTcpNoDelay(true);
    met.setSoLinger(true, 0);
    synchronized (this) {
      local = met;
      if (closed) {
        met.close();
      }
    }
    return met;
  }

  private interface Work {
    void run() throws IOException;
  }

  private void start(String direction, Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (IOException e) {
                breakOff(e);
              } finally {
                ended.countDown();
              }
            },
            "migration, pages " + direction + " the other host");
    thread.setDaemon(true);
    thread.start();
  }

  private void breakOff(IOException e) {
    boolean saidSo = e instanceof RefusedException;
    // That the other end refuses is why nothing can be sent to it: the reason, even if heard later.
    IOException earlier = broken.getAndUpdate(first -> first == null || saidSo ? e : first);
    if (earlier == null) {
      reset();
      if (!saidSo) {
        wire.refuse("the pages could not be passed on: " + e.getMessage());
      }
    }
  }

  private void passOn(Socket met) throws IOException {
    byte[] buffer = new byte[BUFFER_BYTES];
    InputStream in = met.getInputStream();
    for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
      wire.send(Kind.PAGES, buffer, count);
    }
    wire.send(Kind.PAGES_END);
  }

  private void deliver(Socket met) throws IOException {
    OutputStream out = met.getOutputStream();
    long came = 0;
    for (Message next = wire.receive(); next.kind() != Kind.PAGES_END; next = wire.receive()) {
      if (next.kind() != Kind.PAGES) {
        throw new IOException("%s came among the pages".formatted(next.kind()));
      }
      came += next.content().length;
      if (came > most) {
        throw new IOException("more came than was offered, which was %s bytes".formatted(most));
      }
      out.write(next.content());
    }
    met.setSoLinger(false, 0);
    met.shutdownOutput();
  }

  /**
   * Waits until both have said all, which the deadline of the connection bounds.
   *
   * @throws RefusedException when the other end says that it ends here
   * @throws IOException when it broke
   */
  public void await() throws IOException {
    try {
      ended.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("the thread was interrupted", e);
    }
    IOException why = broken.get();
    if (why != null) {
      throw why;
    }
  }

  /** Whether it broke. */
  public boolean isBroken() {
    return broken.get() != null;
  }

  private synchronized void reset() {
    closed = true;
    if (local != null) {
      try {
        local.close();
      } catch (IOException e) {
        throw new AssertionError("a socket closes", e);
      }
    }
  }

  /** Resets the connection to the CRIU of this host, unless both have said all. */
  @Override
  public void close() {
    reset();
  }
}
