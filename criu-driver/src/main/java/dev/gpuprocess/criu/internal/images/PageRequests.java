package dev.gpuprocess.criu.internal.images;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * What {@code criu lazy-pages} says to the dump that has the pages ({@code struct page_server_iov}
 * of CRIU's page-xfer.c): requests, and at last that it closes. It says the latter also when it has
 * failed, and the dump then lets its tree die. So it is answered here and not passed on. For one
 * thread.
 */
public final class PageRequests extends InputStream {

  private static final int PS_IOV_CLOSE = 0x1023;
  private static final int PS_IOV_FORCE_CLOSE = 0x1024;
  private static final int COMMAND_MASK = 0xffff;

  /** Until CRIU 4.1 the number of pages has 32 bits, and since then 64. */
  private static final int SHORT_BYTES = 24;

  private static final int LONG_BYTES = 32;

  /**
   * The third word: an address in the long form, and in the short one a pid, which is below that.
   */
  private static final int THIRD_WORD = 16;

  private static final long PIDS = 1L << 22;

  private final InputStream said;
  private final OutputStream answers;
  private int requestBytes;
  private byte[] request = {};
  private int taken;

  /**
   * Prepares.
   *
   * @param said what the helper says
   * @param answers where it hears the answer
   */
  public PageRequests(InputStream said, OutputStream answers) {
    this.said = said;
    this.answers = answers;
  }

  @Override
  public int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  @Override
  public int read(byte[] to, int offset, int length) throws IOException {
    if (length == 0) {
      return 0;
    }
    if (taken == request.length && !next()) {
      return -1;
    }
    int count = Math.min(length, request.length - taken);
    System.arraycopy(request, taken, to, offset, count);
    taken += count;
    return count;
  }

  /** False at the end. */
  private boolean next() throws IOException {
    while (true) {
      byte[] next = said.readNBytes(requestBytes == 0 ? SHORT_BYTES : requestBytes);
      if (next.length == 0) {
        return false;
      }
      if (next.length < SHORT_BYTES) {
        throw new IOException("CRIU ended in the middle of a request");
      }
      ByteBuffer words = ByteBuffer.wrap(next).order(ByteOrder.LITTLE_ENDIAN);
      int command = words.getInt(0) & COMMAND_MASK;
      if (command == PS_IOV_CLOSE || command == PS_IOV_FORCE_CLOSE) {
        answers.write(new byte[Integer.BYTES]);
        answers.flush();
        byte[] rest = said.readAllBytes(); // of that word, in the long form
        if (rest.length > LONG_BYTES - SHORT_BYTES) {
          throw new IOException("CRIU went on after its last word");
        }
        return false;
      }
      if (requestBytes == 0) {
        requestBytes =
            Long.compareUnsigned(words.getLong(THIRD_WORD), PIDS) > 0 ? LONG_BYTES : SHORT_BYTES;
        if (requestBytes == LONG_BYTES) {
          next = joined(next, said.readNBytes(LONG_BYTES - SHORT_BYTES));
        }
      }
      request = next;
      taken = 0;
      return true;
    }
  }

  private static byte[] joined(byte[] one, byte[] other) {
    byte[] both = Arrays.copyOf(one, one.length + other.length);
    System.arraycopy(other, 0, both, one.length, other.length);
    return both;
  }
}
