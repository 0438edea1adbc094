package dev.gpuprocess.internal.image;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Writes a page map as CRIU does: two magic numbers, then records of a length and a message. */
final class PageMapBytes {

  static final int PRESENT = 4;
  static final int LAZY = 2;
  static final int IN_PARENT = 1;

  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  PageMapBytes(long pagesId) {
    out.writeBytes(int32(0x54564319));
    out.writeBytes(int32(0x56084025));
    record(new Message().number(1, pagesId));
  }

  /** A run as CRIU 4 writes it. */
  PageMapBytes run(long address, long pages, int flags) {
    return record(
        new Message()
            .number(1, address)
            .number(2, pages & 0xffffffffL)
            .number(4, flags)
            .number(5, pages));
  }

  PageMapBytes record(Message message) {
    byte[] bytes = message.out.toByteArray();
    out.writeBytes(int32(bytes.length));
    out.writeBytes(bytes);
    return this;
  }

  PageMapBytes raw(byte... bytes) {
    out.writeBytes(bytes);
    return this;
  }

  byte[] bytes() {
    return out.toByteArray();
  }

  static byte[] int32(int value) {
    return ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array();
  }

  /** A protobuf message of numbers. */
  static final class Message {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    Message number(int field, long value) {
      varint((long) field << 3);
      varint(value);
      return this;
    }

    Message raw(int... bytes) {
      for (int each : bytes) {
        out.write(each);
      }
      return this;
    }

    private void varint(long value) {
      long rest = value;
      while ((rest & ~0x7FL) != 0) {
        out.write((int) ((rest & 0x7F) | 0x80));
        rest >>>= 7;
      }
      out.write((int) rest);
    }
  }
}
