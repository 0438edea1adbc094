package dev.gpuprocess.internal.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Build ids of files that linkers write, and of malformed files. */
class BuildIdTest {

  private static final int NOTES_AT = 0x200;

  @TempDir Path directory;

  private Optional<String> idOf(byte[] content) throws IOException {
    Path file = Files.write(directory.resolve("file"), content);
    try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "r")) {
      return BuildId.of(open);
    }
  }

  private Optional<String> idOf(ByteBuffer content) throws IOException {
    byte[] bytes = new byte[content.capacity()];
    content.get(0, bytes);
    return idOf(bytes);
  }

  /** An ELF file with a segment of code and one of two notes, the second of which has the id. */
  private static ByteBuffer elf(boolean is64, ByteOrder order, byte[] id) {
    ByteBuffer file = ByteBuffer.allocate(0x400).order(order);
    file.put(new byte[] {0x7f, 'E', 'L', 'F', (byte) (is64 ? 2 : 1)});
    file.put((byte) (order == ByteOrder.BIG_ENDIAN ? 2 : 1));
    int entry = is64 ? 56 : 32;
    int table = is64 ? 64 : 52;
    if (is64) {
      file.putLong(32, table).putShort(54, (short) entry).putShort(56, (short) 2);
    } else {
      file.putInt(28, table).putShort(42, (short) entry).putShort(44, (short) 2);
    }
    file.putInt(table, 1);
    int notes = table + entry;
    file.putInt(notes, 4);
    int bytes = 12 + 4 + 16 + 12 + 4 + (id.length + 3 & ~3);
    if (is64) {
      file.putLong(notes + 8, NOTES_AT).putLong(notes + 32, bytes);
    } else {
      file.putInt(notes + 4, NOTES_AT).putInt(notes + 16, bytes);
    }
    file.position(NOTES_AT);
    file.putInt(4).putInt(16).putInt(1).put(owner()).put(new byte[16]);
    file.putInt(4).putInt(id.length).putInt(3).put(owner()).put(id);
    return file;
  }

  private static byte[] owner() {
    return "GNU\0".getBytes(StandardCharsets.US_ASCII);
  }

  @Test
  void isFoundInEveryKindOfElfFile() throws IOException {
    byte[] id = {1, 2, 3, 4, 5, (byte) 0xff};
    for (ByteOrder order : new ByteOrder[] {ByteOrder.LITTLE_ENDIAN, ByteOrder.BIG_ENDIAN}) {
      assertEquals(Optional.of("0102030405ff"), idOf(elf(true, order, id)));
      assertEquals(Optional.of("0102030405ff"), idOf(elf(false, order, id)));
    }
  }

  @Test
  void filesWithoutAnIdHaveNone() throws IOException {
    assertEquals(Optional.empty(), idOf(new byte[0]));
    assertEquals(Optional.empty(), idOf("#!/bin/sh\n".repeat(20).getBytes(StandardCharsets.UTF_8)));
    assertEquals(Optional.empty(), idOf(elf(true, ByteOrder.LITTLE_ENDIAN, new byte[0])));
    assertEquals(Optional.empty(), idOf(elf(true, ByteOrder.LITTLE_ENDIAN, new byte[65])));
    ByteBuffer ofOthers = elf(true, ByteOrder.LITTLE_ENDIAN, new byte[20]);
    ofOthers.put(NOTES_AT + 32 + 12, (byte) 'X');
    assertEquals(Optional.empty(), idOf(ofOthers));
  }

  @Test
  void offsetsThatLeadNowhereAreNotFollowed() throws IOException {
    for (long bad : new long[] {-1, Long.MIN_VALUE, Long.MAX_VALUE, 0x400, 0x3ff}) {
      ByteBuffer table = elf(true, ByteOrder.LITTLE_ENDIAN, new byte[20]);
      assertEquals(Optional.empty(), idOf(table.putLong(32, bad)));
      ByteBuffer notes = elf(true, ByteOrder.LITTLE_ENDIAN, new byte[20]);
      assertEquals(Optional.empty(), idOf(notes.putLong(64 + 56 + 8, bad)));
      ByteBuffer size = elf(true, ByteOrder.LITTLE_ENDIAN, new byte[20]);
      assertEquals(Optional.empty(), idOf(size.putInt(NOTES_AT, (int) bad)));
    }
    ByteBuffer many = elf(true, ByteOrder.LITTLE_ENDIAN, new byte[20]);
    assertEquals(Optional.empty(), idOf(many.putShort(56, (short) -1)));
  }

  @Test
  @Timeout(60)
  void noFileMakesItFailOrHang() throws IOException {
    Random random = new Random(20261122);
    byte[] whole = new byte[NOTES_AT + 100];
    elf(true, ByteOrder.LITTLE_ENDIAN, new byte[20]).get(0, whole);
    int found = 0;
    for (int i = 0; i < 2000; i++) {
      byte[] changed = whole.clone();
      for (int j = 0; j < 1 + i % 4; j++) {
        changed[random.nextInt(changed.length)] = (byte) random.nextInt();
      }
      found += idOf(changed).map(String::length).orElse(0) > 0 ? 1 : 0;
    }
    assertTrue(found > 0, "some changes are harmless");
  }
}
