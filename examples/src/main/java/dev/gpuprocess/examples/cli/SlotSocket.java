package dev.gpuprocess.examples.cli;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.ToNumberPolicy;
import com.google.gson.reflect.TypeToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import jdk.net.ExtendedSocketOptions;
import org.jspecify.annotations.Nullable;

/**
 * The socket of a slot's controller: {@code slot-NAME.socket} in the state directory, which no
 * other user can enter. A connection has one request and one answer, each a JSON object in a line.
 * If the other side closes the connection before the answer, the request is cancelled.
 */
final class SlotSocket {

  /** Longer than any request, and than the answer for a queue of thousands of processes. */
  private static final int LONGEST_LINE = 1 << 22;

  private static final Gson JSON =
      new GsonBuilder().setObjectToNumberStrategy(ToNumberPolicy.LONG_OR_DOUBLE).create();

  private final Path file;

  SlotSocket(Path stateDirectory, String slot) {
    this.file = stateDirectory.resolve("slot-" + slot + ".socket");
  }

  /**
   * Makes the socket. The slot must be open, so that a file of this name is one that a killed
   * controller left.
   */
  ServerSocketChannel listen() throws IOException {
    // It gets its name when no other user can use it.
    Path made = file.resolveSibling(file.getFileName() + ".new");
    Files.deleteIfExists(made);
    ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    try {
      server.bind(UnixDomainSocketAddress.of(made));
      Files.setPosixFilePermissions(made, PosixFilePermissions.fromString("rw-------"));
      Files.move(made, file, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException | RuntimeException e) {
      server.close();
      throw e;
    }
    return server;
  }

  /** Removes the socket, so that further calls are refused. */
  void remove() throws IOException {
    Files.deleteIfExists(file);
  }

  /** Returns whether the other side of a connection is of the user of this controller. */
  boolean isOurs(SocketChannel peer) throws IOException {
    String user = peer.getOption(ExtendedSocketOptions.SO_PEERCRED).user().getName();
    return user.equals(Files.getOwner(file).getName());
  }

  /** Sends a request to the controller, and waits for its answer. */
  Map<String, @Nullable Object> call(Map<String, @Nullable Object> request) throws IOException {
    try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(file))) {
      write(channel, request);
      return read(channel);
    }
  }

  /**
   * Reads an object.
   *
   * @throws IOException when the connection ends before a line, or the line is no JSON object
   */
  static Map<String, @Nullable Object> read(SocketChannel channel) throws IOException {
    InputStream in = Channels.newInputStream(channel);
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    byte[] bytes = new byte[4096];
    int count = in.read(bytes);
    while (count > 0 && bytes[count - 1] != '\n' && line.size() < LONGEST_LINE) {
      line.write(bytes, 0, count);
      count = in.read(bytes);
    }
    if (count <= 0 || line.size() >= LONGEST_LINE) {
      throw new IOException("the connection ended before a whole line");
    }
    line.write(bytes, 0, count);
    try {
      Map<String, @Nullable Object> value =
          JSON.fromJson(
              line.toString(StandardCharsets.UTF_8),
              new TypeToken<Map<String, @Nullable Object>>() {}.getType());
      if (value == null) {
        throw new IOException("the line is empty");
      }
      return value;
    } catch (JsonParseException e) {
      throw new IOException("the line is no JSON object", e);
    }
  }

  static void write(SocketChannel channel, Map<String, @Nullable Object> value) throws IOException {
    ByteBuffer line = StandardCharsets.UTF_8.encode(Output.line(value) + "\n");
    while (line.hasRemaining()) {
      channel.write(line);
    }
  }

  @Override
  public String toString() {
    return file.toString();
  }
}
