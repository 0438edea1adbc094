package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.IoFunction;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How a process asks for snapshots of itself, and is answered. Its root, which is of this library
 * ({@code requests.c}), has a socket to which the processes of the tree connect: that is dumped and
 * restored with them. What they ask for it writes to a FIFO that is open here, and what it is told
 * comes by a connection that both sides have closed before a dump begins. Both are in a directory
 * that no other user can enter.
 */
public final class RequestChannel implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** An isolated process has its own there, and so has each of its copies. */
  private static final Path MEMORY = Path.of("/dev/shm");

  private static final Pattern REQUEST = Pattern.compile("(idle|now) ([0-9a-f]{16})");
  private static final int NAME_BYTES = 8;
  private static final int LONGEST_REQUEST = 64;
  private static final int LONGEST_ANSWER = 500;

  private final String name;
  private final Path fifo;
  private final Path socket;
  private final boolean isolated;
  private final ByteBuffer line = ByteBuffer.allocate(LONGEST_REQUEST);
  private final ByteBuffer read = ByteBuffer.allocate(4096).flip();
  private @Nullable FileChannel requests;
  private boolean closed;

  private RequestChannel(String name, Path directory, boolean isolated) {
    this.name = name;
    this.fifo = directory.resolve("asks-" + name);
    this.socket = (isolated ? MEMORY : directory).resolve("asks-" + name + ".socket");
    this.isolated = isolated;
  }

  /**
   * What is asked for.
   *
   * @param urgent whether it is to be made now, and not when the GPU is idle
   * @param token names the request; one that becomes urgent keeps it
   */
  public record Request(boolean urgent, String token) {}

  /**
   * Chooses the names; nothing is made yet.
   *
   * @param options of the process
   * @throws IOException when there is no place for it
   */
  static RequestChannel of(LaunchOptions options) throws IOException {
    byte[] random = new byte[NAME_BYTES];
    new SecureRandom().nextBytes(random);
    return new RequestChannel(
        HexFormat.of().formatHex(random),
        Objects.requireNonNull(NativeFiles.path(NativeFiles.JOB).getParent()),
        options.isolated() && Files.isDirectory(MEMORY));
  }

  /** The socket, as the process sees it. */
  Path socket() {
    return socket;
  }

  /** The FIFO. */
  Path fifo() {
    return fifo;
  }

  /** From now on there is somebody who takes requests. The FIFO is there. */
  synchronized void open() throws IOException {
    // For writing too: so it does not end when the root has written.
    requests = FileChannel.open(fifo, StandardOpenOption.READ, StandardOpenOption.WRITE);
  }

  /**
   * Waits for the next request; for one thread.
   *
   * @return empty when the process has ended
   */
  public Optional<Request> next() {
    FileChannel from;
    synchronized (this) {
      from = requests;
    }
    try {
      while (from != null) {
        while (read.hasRemaining()) {
          Optional<Request> request = add(read.get());
          if (request.isPresent()) {
            return request;
          }
        }
        int unused = from.read(read.clear());
        read.flip();
      }
    } catch (IOException e) {
      LOG.debug("no more requests are read from {}", fifo, e);
    }
    return Optional.empty();
  }

  /** What is no request is left out. */
  private Optional<Request> add(byte next) {
    if (next != '\n') {
      if (line.hasRemaining()) {
        line.put(next);
      }
      return Optional.empty();
    }
    Matcher request =
        REQUEST.matcher(new String(line.array(), 0, line.position(), StandardCharsets.US_ASCII));
    line.clear();
    return request.matches()
        ? Optional.of(new Request(request.group(1).equals("now"), request.group(2)))
        : Optional.empty();
  }

  /**
   * From now on who asks is not in the image any more, and is told so.
   *
   * @param root the root as it is now
   * @throws IOException when the root does not take it in time
   */
  public void begun(ProcessIdentity root, Request request, Duration limit) throws IOException {
    tell(root, "begun " + request.token(), limit);
  }

  /** The snapshot was made; otherwise as {@link #begun}. */
  public void original(ProcessIdentity root, Request request, Duration limit) throws IOException {
    tell(root, "original " + request.token(), limit);
  }

  /** There is none, for this reason; otherwise as {@link #begun}. */
  public void refused(ProcessIdentity root, Request request, String why, Duration limit)
      throws IOException {
    String printable = why.replaceAll("[^\\x20-\\x7e]", "?");
    tell(
        root,
        "refused: %s %s"
            .formatted(
                request.token(),
                printable.substring(0, Math.min(printable.length(), LONGEST_ANSWER))),
        limit);
  }

  /**
   * The process has come back, and this is for it again. Of the copies of an isolated process it is
   * for one.
   *
   * @throws IOException when the root does not take it in time
   */
  void taken(ProcessIdentity root, Duration limit) throws IOException {
    tell(root, "taken " + name, limit);
  }

  private void tell(ProcessIdentity root, String words, Duration limit) throws IOException {
    long end = Durations.end(limit);
    try (Polling patience = new Polling(limit)) {
      while (root.isAlive()) {
        try (OpenedFile held = socket(root)) {
          if (isTold(held.self(), words, end)) {
            return;
          }
        }
        if (!patience.pause()) {
          throw late(root);
        }
      }
    }
  }

  /** The process can replace the name of its socket; a link at that name would lead to a host's. */
  private OpenedFile socket(ProcessIdentity root) throws IOException {
    IoFunction<UntrustedPaths, OpenedFile> held =
        paths -> {
          OpenedFile found =
              paths.hold(socket).orElseThrow(() -> new NoSuchFileException(socket.toString()));
          if (!found.node().isSocket()) {
            found.close();
            throw new IOException(socket + " of process " + root.pid() + " is not a socket");
          }
          return found;
        };
    return isolated
        ? UntrustedPaths.as(root.pid(), UntrustedPaths.PATIENCE, held)
        : UntrustedPaths.ours(UntrustedPaths.PATIENCE, held);
  }

  /**
   * One connection, which the root closes before this returns: CRIU must find nothing of it.
   *
   * @return false when the root has too many to take one more
   */
  private boolean isTold(Path at, String words, long end) throws IOException {
    try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        Selector closing = Selector.open()) {
      channel.configureBlocking(false);
      if (!channel.connect(UnixDomainSocketAddress.of(at))) {
        return false;
      }
      int unused = channel.write(ByteBuffer.wrap(NativePath.encode(words + "\n")));
      SelectionKey unusedKey = channel.register(closing, SelectionKey.OP_READ);
      ByteBuffer answer = ByteBuffer.allocate(LONGEST_ANSWER);
      while (channel.read(answer.clear()) >= 0) {
        long left = Durations.left(end);
        if (left <= 0) {
          throw new IOException(socket + " does not answer: is its process stopped?");
        }
        int unusedCount = closing.select(Math.max(1, left / 1_000_000));
      }
      return true;
    }
  }

  private IOException late(ProcessIdentity root) {
    return new IOException(
        "process %s takes no connection: is it stopped, or kept busy?".formatted(root.pid()));
  }

  /** Nobody takes requests any more. What was made is removed. */
  @Override
  public void close() {
    FileChannel open;
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      open = requests;
    }
    try {
      if (open != null) {
        open.close();
      }
      Files.deleteIfExists(fifo);
      if (!isolated) {
        Files.deleteIfExists(socket);
      }
    } catch (IOException e) {
      LOG.warn("what {} was for has ended, and it is not removed: {}", fifo, e.getMessage());
    }
  }
}
