package dev.gpuprocess.internal.wire;

import dev.gpuprocess.image.ImageKey;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.internal.time.Durations;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * One connection of two hosts, over which a process moves. Messages are checked one by one, and
 * come as they were sent or not at all. Every wait ends at the deadline, at which the connection is
 * cut. One thread may send while another receives.
 */
public final class Wire implements AutoCloseable {

  /** The protocol, of which both ends must have the same version. */
  private static final byte[] GREETING = "GPUMOVE1".getBytes(StandardCharsets.US_ASCII);

  private static final int NONCE_BYTES = 32;
  private static final int MAX_BYTES = 16 << 20;
  private static final int MAX_REASON = 2000;

  private final Socket socket;
  private final DataInputStream in;
  private final DataOutputStream out;
  private final FrameCheck sent;
  private final FrameCheck received;
  private final Duration limit;
  private final ReentrantLock receiving = new ReentrantLock();
  private final CountDownLatch closed = new CountDownLatch(1);
  private volatile boolean late;

  /**
   * Greets the other end.
   *
   * @param raw what is closed at the deadline, also while somebody writes
   * @param socket the same, or TLS over it
   * @param connecting whether this is the sender of the process
   */
  Wire(Socket raw, Socket socket, boolean connecting, @Nullable ImageKey key, Duration limit)
      throws IOException {
    this.socket = raw;
    this.limit = limit;
    Thread watch = new Thread(() -> cutAt(Durations.end(limit)), "migration deadline");
    watch.setDaemon(true);
    watch.start();
    boolean greeted = false;
    try {
      in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16));
      out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream(), 1 << 16));
      byte[] session = greet(connecting, key != null);
      sent = new FrameCheck(connecting ? "sender" : "receiver", session, key);
      received = new FrameCheck(connecting ? "receiver" : "sender", session, key);
      greeted = true;
    } catch (IOException e) {
      throw explained(e);
    } finally {
      if (!greeted) {
        close();
      }
    }
  }

  private void cutAt(long end) {
    try {
      if (!closed.await(Durations.left(end), TimeUnit.NANOSECONDS)) {
        late = true;
        cut();
      }
    } catch (InterruptedException e) {
      cut();
    }
  }

  private byte[] greet(boolean connecting, boolean keyed) throws IOException {
    byte[] ours = new byte[NONCE_BYTES];
    new SecureRandom().nextBytes(ours);
    out.write(GREETING);
    out.writeBoolean(keyed);
    out.write(ours);
    out.flush();
    byte[] greeting = in.readNBytes(GREETING.length);
    if (!Arrays.equals(greeting, GREETING)) {
      throw new IOException(
          greeting.length == 0
              ? "it hung up: look whether it wants TLS, or has another certificate authority"
              : "it speaks another version of the protocol, or another protocol: use the same version of the library on both hosts");
    }
    if (in.readBoolean() != keyed) {
      throw new IOException(
          "only one of the hosts has an image key: give both the same (GpuCheckpoints.Builder.imageKey)");
    }
    byte[] theirs = new byte[NONCE_BYTES];
    in.readFully(theirs);
    byte[] session = Arrays.copyOf(connecting ? ours : theirs, 2 * NONCE_BYTES);
    System.arraycopy(connecting ? theirs : ours, 0, session, NONCE_BYTES, NONCE_BYTES);
    return session;
  }

  /** Sends a message. */
  public void send(Kind kind, byte[] content) throws IOException {
    send(kind, content, content.length);
  }

  /** Sends a message without content. */
  public void send(Kind kind) throws IOException {
    send(kind, new byte[0]);
  }

  /** Sends text. */
  public void send(Kind kind, String text) throws IOException {
    send(kind, text.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * Sends a message.
   *
   * @param count how many of the bytes
   * @throws RefusedException when the other end has hung up, and said before that it ends here
   */
  public void send(Kind kind, byte[] content, int count) throws IOException {
    if (count > MAX_BYTES) {
      throw new IOException("a message of %s bytes is too long".formatted(count));
    }
    try {
      synchronized (out) {
        out.writeByte(kind.code());
        out.writeInt(count);
        out.write(content, 0, count);
        out.write(sent.next(kind, content, count));
        out.flush();
      }
    } catch (IOException e) {
      throw lastWord(e);
    }
  }

  /** What the other end said before it hung up says more than that it did. */
  private IOException lastWord(IOException failed) {
    if (!receiving.tryLock()) {
      return explained(failed); // whoever receives hears it
    }
    try {
      while (true) {
        Message unused = receive();
      }
    } catch (RefusedException said) {
      said.addSuppressed(failed);
      return said;
    } catch (IOException silent) {
      return explained(failed);
    } finally {
      receiving.unlock();
    }
  }

  /**
   * Receives the next message.
   *
   * @throws RefusedException when the other end says that it ends here
   * @throws IOException when there is none, or it is not as it was sent
   */
  public Message receive() throws IOException {
    receiving.lock();
    try {
      Kind kind =
          Kind.of(in.readByte())
              .orElseThrow(() -> new IOException("it sent something that is no message"));
      int count = in.readInt();
      if (count < 0 || count > MAX_BYTES) {
        throw new IOException("it sent a message of %s bytes".formatted(count));
      }
      byte[] content = in.readNBytes(count);
      byte[] check = in.readNBytes(received.bytes());
      if (content.length < count || check.length < received.bytes()) {
        throw new EOFException();
      }
      Message message = new Message(kind, content);
      if (!MessageDigest.isEqual(check, received.next(message.kind(), content, count))) {
        throw new IOException("what it sent was altered on the way, or it has another image key");
      }
      if (message.kind() == Kind.REFUSE) {
        throw new RefusedException(Printable.of(message.text(), MAX_REASON));
      }
      return message;
    } catch (RefusedException e) {
      throw e;
    } catch (IOException e) {
      throw explained(e);
    } finally {
      receiving.unlock();
    }
  }

  /**
   * Receives a message that must be of a kind.
   *
   * @throws RefusedException when the other end says that it ends here
   * @throws IOException when there is none, or it is another one
   */
  public Message receive(Kind expected) throws IOException {
    Message message = receive();
    if (message.kind() != expected) {
      throw new IOException("it sent %s where %s was due".formatted(message.kind(), expected));
    }
    return message;
  }

  /** Tells the other end that it ends here, if it can be told. */
  public void refuse(String why) {
    try {
      send(Kind.REFUSE, why.substring(0, Math.min(why.length(), MAX_REASON)));
    } catch (IOException e) {
      hangUp(); // which says the same with fewer words
    }
  }

  /** Sends nothing more. What the other end has said already can still be received. */
  void hangUp() {
    try {
      socket.shutdownOutput();
    } catch (IOException e) {
      cut(); // it was closed or reset
    }
  }

  /** What an operator can use of an error. */
  private IOException explained(IOException e) {
    if (late) {
      SocketTimeoutException told =
          new SocketTimeoutException("the time limit of %s was over".formatted(limit));
      told.initCause(e);
      return told;
    }
    return e instanceof EOFException ? new IOException("it hung up", e) : e;
  }

  /** Ends the connection at once, also while another thread reads or writes. */
  public void cut() {
    try {
      socket.close();
    } catch (IOException e) {
      throw new AssertionError("a socket closes", e);
    }
  }

  @Override
  public void close() {
    closed.countDown();
    cut();
  }
}
