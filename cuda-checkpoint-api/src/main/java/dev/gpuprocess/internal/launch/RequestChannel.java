package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.internal.time.IoFunction;
import dev.gpuprocess.internal.time.Polling;
import dev.gpuprocess.options.LaunchOptions;
import dev.gpuprocess.report.ProcessIdentity;
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
 * The channel by which a process requests snapshots of itself, and gets answers. Its root, which is
 * a program of this library ({@code requests.c}), has a socket to which the processes of the tree
 * connect: it is dumped and restored with them. The root writes their requests to a FIFO that this
 * JVM reads. Answers are sent to the root by a connection that both sides close before a dump
 * begins. FIFO and socket are in a directory that no other user can enter.
 */
public final class RequestChannel implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  /** An isolated process and each of its copies has its own directory here. */
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
   * A request for a snapshot.
   *
   * @param urgent whether it is to be made now, and not when the GPU is idle
   * @param token identifies the request, also after it has become urgent
   */
  public record Request(boolean urgent, String token) {}

  /**
   * Chooses the names; nothing is created yet.
   *
   * @throws IOException when no directory for it can be made
   */
  static RequestChannel of(LaunchOptions options) throws IOException {
    byte[] random = new byte[NAME_BYTES];
    new SecureRandom().nextBytes(random);
    return new RequestChannel(
        HexFormat.of().formatHex(random),
        Objects.requireNonNull(NativeFile.installed(NativeFile.LAUNCHER).getParent()),
        options.isolated() && Files.isDirectory(MEMORY));
  }

  /** Returns the path of the socket in the mount namespace of the process. */
  Path socket() {
    return socket;
  }

  /** Returns the path of the FIFO. */
  Path fifo() {
    return fifo;
  }

  /** Opens the FIFO, which exists: from now on requests are accepted. */
  synchronized void open() throws IOException {
    // Also for writing: so a read does not return the end of the file when the root closes it.
    requests = FileChannel.open(fifo, StandardOpenOption.READ, StandardOpenOption.WRITE);
  }

  /**
   * Waits for the next request; for one thread.
   *
   * @return empty if the process has exited
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

  /** Adds a byte; returns a request at the end of its line, and ignores invalid lines. */
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
   * Reports that the snapshot of a request has begun: later requests are not in the image.
   *
   * @param root the present root
   * @throws IOException when the root does not accept it in time
   */
  public void begun(ProcessIdentity root, Request request, Duration limit) throws IOException {
    send(root, "begun " + request.token(), limit);
  }

  /** Reports, as {@link #begun} does, that the snapshot was made. */
  public void original(ProcessIdentity root, Request request, Duration limit) throws IOException {
    send(root, "original " + request.token(), limit);
  }

  /** Reports, as {@link #begun} does, that the snapshot failed, and the reason. */
  public void refused(ProcessIdentity root, Request request, String why, Duration limit)
      throws IOException {
    String printable = why.replaceAll("[^\\x20-\\x7e]", "?");
    send(
        root,
        "refused: %s %s"
            .formatted(
                request.token(),
                printable.substring(0, Math.min(printable.length(), LONGEST_ANSWER))),
        limit);
  }

  /**
   * Connects the channel to the restored process; if an isolated process has several copies, to
   * one.
   *
   * @throws IOException when the root does not accept it in time
   */
  void taken(ProcessIdentity root, Duration limit) throws IOException {
    send(root, "taken " + name, limit);
  }

  private void send(ProcessIdentity root, String words, Duration limit) throws IOException {
    Deadline deadline = Deadline.after(limit);
    try (Polling patience = new Polling(limit)) {
      while (root.isAlive()) {
        try (OpenedFile held = socket(root)) {
          if (isSent(held.self(), words, deadline)) {
            return;
          }
        }
        if (!patience.pause()) {
          throw late(root);
        }
      }
    }
  }

  /** Opens the socket: the process could replace it by a link to a socket of the host. */
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
   * Sends on one connection, which the root closes before this returns: CRIU must not find it.
   *
   * @return false if the root has too many connections
   */
  private boolean isSent(Path at, String words, Deadline deadline) throws IOException {
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
        if (deadline.passed()) {
          throw new IOException(socket + " does not answer: is its process stopped?");
        }
        int unusedCount = closing.select(Math.max(1, deadline.millis(Integer.MAX_VALUE)));
      }
      return true;
    }
  }

  private IOException late(ProcessIdentity root) {
    return new IOException(
        "process %s accepts no connection: is it stopped, or busy?".formatted(root.pid()));
  }

  /** Ends the channel, and removes its FIFO and socket. */
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
      LOG.warn("{} is not removed after its process has exited: {}", fifo, e.getMessage());
    }
  }
}
