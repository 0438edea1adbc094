package dev.gpuprocess.internal.linux;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.internal.proc.ProcFs;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A message may come with file descriptors, which a hostile sender adds. */
class PacketSocketPairTest {

  private static final Duration LIMIT = Duration.ofSeconds(30);

  // struct msghdr, struct iovec, one byte, and struct cmsghdr with descriptors
  private static final int VECTOR = 56;
  private static final int BYTE = 72;
  private static final int CONTROL = 80;
  private static final int DESCRIPTORS = CONTROL + 16;

  @TempDir Path directory;
  private Path file;

  @BeforeEach
  void prepare() throws IOException {
    file = Files.createFile(directory.resolve("passed")).toRealPath();
  }

  @Test
  void passedDescriptorsAreClosed() throws IOException {
    for (int count = 1; count <= 10; count++) {
      try (PacketSocketPair pair = PacketSocketPair.make()) {
        send(pair.theirs(), count);
        assertFalse(isOpen());
        assertArrayEquals(new byte[] {'x'}, pair.receive(LIMIT).orElseThrow());
        assertFalse(isOpen(), count + " descriptors were accepted");
      }
    }
  }

  /** A receiver that takes a descriptor gets one, and no other stays open. */
  @Test
  void onlyOneDescriptorIsReceived() throws IOException {
    int[] pair = PacketSocket.pair();
    PacketSocket receiver = new PacketSocket(pair[0]);
    try {
      receiver.askForSenders();
      send(pair[1], 2);
      Packet packet = receiver.receive().orElseThrow();
      assertTrue(packet.descriptor() >= 0);
      assertTrue(isOpen());
      Libc.close(packet.descriptor());
      assertFalse(isOpen(), "a second descriptor was accepted");
    } finally {
      receiver.close();
      Libc.close(pair[1]);
    }
  }

  private void send(int socket, int count) throws IOException {
    int passed = Libc.open(file, 0);
    try {
      NativeMemory memory = NativeMemory.of(DESCRIPTORS + count * Integer.BYTES + Integer.BYTES);
      memory.putLong(16, memory.address() + VECTOR);
      memory.putLong(24, 1);
      memory.putLong(32, memory.address() + CONTROL);
      memory.putLong(40, 16 + (long) count * Integer.BYTES);
      memory.putLong(VECTOR, memory.address() + BYTE);
      memory.putLong(VECTOR + 8, 1);
      memory.write(BYTE, new byte[] {'x'});
      memory.putLong(CONTROL, 16 + (long) count * Integer.BYTES);
      memory.putInt(CONTROL + 8, 1); // SOL_SOCKET
      memory.putInt(CONTROL + 12, 1); // SCM_RIGHTS
      for (int i = 0; i < count; i++) {
        memory.putInt(DESCRIPTORS + i * Integer.BYTES, passed);
      }
      long sent = memory.with(message -> Libc.LIBRARY.sendmsg(socket, message, Libc.MSG_NOSIGNAL));
      assertTrue(Libc.check(sent, "sendmsg") == 1);
    } finally {
      Libc.close(passed);
    }
  }

  /**
   * Returns whether this JVM has the file open. A message that is not received yet does not count.
   */
  private boolean isOpen() throws IOException {
    try (DirectoryStream<Path> all = Files.newDirectoryStream(ProcFs.kernel("self/fd"))) {
      for (Path each : all) {
        if (leadsTo(each).equals(file)) {
          return true;
        }
      }
    }
    return false;
  }

  private static Path leadsTo(Path link) throws IOException {
    try {
      return Files.readSymbolicLink(link);
    } catch (NoSuchFileException closed) {
      return link;
    }
  }
}
