package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.FileRange;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.time.WorkLimit;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Copies of memory files with zeros in them to a disk. */
class SparseCopyTest {

  private static final int MIB = 1 << 20;
  private static final String PATH = "gpu/memory-1.bin";

  @TempDir Path directory;
  private Path source;
  private Path target;

  @BeforeEach
  void name() {
    source = directory.resolve("source");
    target = directory.resolve("target");
  }

  private static WorkLimit limit() {
    return WorkLimit.readingAtLength("test", 0, () -> false);
  }

  private ChecksummedFile copy(BlockFile to) throws IOException {
    long bytes = Files.size(source);
    try (BlockFile from = BlockFile.openToRead(source, false)) {
      ChecksummedFile copied =
          FileChecksums.copy(
              PATH, bytes, Checksum.CRC32C, offset -> from, to, IoExecutor.streaming(), limit());
      to.sync();
      return copied;
    }
  }

  private void assertCopied(ChecksummedFile copied) throws IOException {
    assertEquals(-1, Files.mismatch(source, target));
    assertEquals(Files.size(source), Files.size(target));
    List<String> sums = new ArrayList<>();
    for (long at = 0; at < Files.size(source); at += ChecksummedFile.CHUNK_BYTES) {
      long end = Math.min(Files.size(source), at + ChecksummedFile.CHUNK_BYTES);
      sums.add(ChunkChecksum.of(Checksum.CRC32C, source, at, end, limit()));
    }
    assertEquals(new ChecksummedFile(PATH, Files.size(source), Checksum.CRC32C, sums), copied);
  }

  private static long allocated(Path file) {
    return Long.parseLong(ProgramRun.of("stat", "-c", "%b", file.toString()).succeed().strip())
        * 512;
  }

  private void assumeHoles() throws IOException {
    Path probe = directory.resolve("probe");
    try (BlockFile file = BlockFile.create(probe, true)) {
      assumeFalse(file.isInMemory(), "the directory for temporary files is in memory");
      file.reserve(MIB);
    }
    assumeTrue(allocated(probe) >= MIB, "no space is reserved here");
    ProgramRun.Ended punched =
        ProgramRun.of("fallocate", "-p", "-o", "0", "-l", Integer.toString(MIB), probe.toString())
            .run();
    assumeTrue(punched.exit() == 0, "no holes here: " + punched.printed());
    assumeTrue(allocated(probe) < MIB, "holes take space here");
  }

  /** Blocks that are zero, dense, or zero but for one byte, and an end of any length. */
  private static byte[] content(Random random, int blocks) {
    byte[] content = new byte[blocks * MIB + random.nextInt(MIB)];
    for (int i = 0; i <= blocks; i++) {
      int from = i * MIB;
      int bytes = Math.min(MIB, content.length - from);
      switch (random.nextInt(4)) {
        case 0 -> {
          byte[] dense = new byte[bytes];
          random.nextBytes(dense);
          System.arraycopy(dense, 0, content, from, bytes);
        }
        case 1 -> {
          if (bytes > 0) {
            content[from + random.nextInt(bytes)] = 1;
          }
        }
        default -> {} // zero
      }
    }
    return content;
  }

  @Test
  void everyByteIsCopied_whereverTheZerosAre() throws IOException {
    Random random = new Random(48);
    for (int round = 0; round < 12; round++) {
      byte[] content = content(random, random.nextInt(24));
      Files.write(source, content);
      Files.deleteIfExists(target);
      try (BlockFile to = BlockFile.create(target, round % 2 == 0)) {
        to.reserve(content.length);
        assertCopied(copy(to));
      }
    }
  }

  /** Whatever an image says is zero: what is not is written. */
  @Test
  void everyByteIsCopied_whateverIsSaidOfZeros() throws IOException {
    Random random = new Random(47);
    for (int round = 0; round < 12; round++) {
      byte[] content = content(random, 1 + random.nextInt(24));
      Files.write(source, content);
      Files.deleteIfExists(target);
      List<FileRange> said = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        long from = random.nextInt(content.length);
        said.add(new FileRange(from, from + random.nextInt(16 * MIB)));
      }
      if (round % 2 == 0) {
        said.add(new FileRange(0, content.length));
      }
      try (BlockFile to = BlockFile.create(target, round % 2 == 0)) {
        to.truncate(content.length);
        to.leaveUnmapped(said);
        assertCopied(copy(to));
      }
    }
  }

  @Test
  void theFirstAndTheLastByteOfABlockCount() throws IOException {
    byte[] content = new byte[3 * MIB + 5];
    content[MIB - 1] = 1;
    content[MIB] = 2;
    content[content.length - 1] = 3;
    Files.write(source, content);
    try (BlockFile to = BlockFile.create(target, true)) {
      to.reserve(content.length);
      assertCopied(copy(to));
    }
  }

  @Test
  void zerosReplaceWhatWasThere() throws IOException {
    byte[] content = content(new Random(49), 8);
    byte[] old = new byte[content.length];
    new Random(50).nextBytes(old);
    Files.write(source, content);
    Files.write(target, old);
    for (boolean reserved : new boolean[] {true, false}) {
      try (BlockFile to = BlockFile.open(target, false)) {
        if (reserved) {
          to.reserve(content.length);
        }
        assertCopied(copy(to));
      }
      Files.write(target, old);
    }
  }

  @Test
  void zerosTakeNoSpaceOnADisk() throws IOException {
    assumeHoles();
    byte[] content = new byte[32 * MIB];
    byte[] dense = new byte[2 * MIB];
    new Random(51).nextBytes(dense);
    System.arraycopy(dense, 0, content, 7 * MIB, dense.length);
    Files.write(source, content);
    try (BlockFile to = BlockFile.create(target, true)) {
      to.reserve(content.length);
      assertCopied(copy(to));
    }
    long kept = allocated(target);
    assertTrue(kept >= dense.length && kept <= dense.length + MIB, kept + " bytes are allocated");
  }
}
