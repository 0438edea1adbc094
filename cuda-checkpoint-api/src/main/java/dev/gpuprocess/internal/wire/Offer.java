package dev.gpuprocess.internal.wire;

import dev.gpuprocess.internal.text.Printable;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;

/**
 * What the sender says before it touches the process.
 *
 * @param pid the root of the tree
 * @param startTicks when that process started
 * @param bytes about how much there is of it
 */
public record Offer(int pid, long startTicks, long bytes) {

  /** Checks what a stranger may have written. */
  public Offer {
    if (pid <= 1 || startTicks < 0 || bytes < 0) {
      throw new IllegalArgumentException(
          "process %s started at %s with %s bytes".formatted(pid, startTicks, bytes));
    }
  }

  /** As a message. */
  public byte[] encoded() throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(all);
    out.writeInt(pid);
    out.writeLong(startTicks);
    out.writeLong(bytes);
    return all.toByteArray();
  }

  /** Of a message. */
  public static Offer of(Message message) throws IOException {
    try {
      DataInputStream in = new DataInputStream(new ByteArrayInputStream(message.content()));
      return new Offer(in.readInt(), in.readLong(), in.readLong());
    } catch (IllegalArgumentException e) {
      throw new IOException(
          "it offers what this version does not know: "
              + Printable.of(String.valueOf(e.getMessage())),
          e);
    }
  }
}
