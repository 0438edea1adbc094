package dev.gpuprocess.internal.call;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.gpuprocess.internal.linux.FileSystemStatus;
import dev.gpuprocess.internal.proc.DiskWrites;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A slow disk is not one that hangs. */
@Tag("slow")
class SlowDiskTest {

  private static final Duration LIMIT = Duration.ofSeconds(4);

  @TempDir Path directory;

  /** Writes one block or more to the disk, until a time has passed. */
  private String write(long end) {
    try (FileChannel file =
        FileChannel.open(
            directory.resolve("file"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      do {
        int unused = file.write(ByteBuffer.allocate(4096), 0);
        file.force(true);
      } while (System.nanoTime() < end);
      return "done";
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The access itself keeps the disk busy. */
  @Test
  void accessToADiskThatCompletesWritesMayTakeLonger() throws IOException {
    assumeFalse(FileSystemStatus.of(directory).isInMemory(), "it is on no disk");
    long end = System.nanoTime() + LIMIT.multipliedBy(2).toNanos();
    assertEquals("done", new BoundedDirectory(directory, LIMIT).get("write", () -> write(end)));
  }

  @Test
  void completedWritesAreCounted() throws IOException {
    assumeFalse(FileSystemStatus.of(directory).isInMemory(), "it is on no disk");
    long before = DiskWrites.below(directory).orElseThrow();
    assertEquals("done", write(System.nanoTime()));
    assertTrue(DiskWrites.below(directory).orElseThrow() > before);
  }

  private Duration given(SlowDisk disk) {
    Duration all = Duration.ZERO;
    for (Duration more = disk.get(); !more.isZero(); more = disk.get()) {
      all = all.plus(more);
    }
    return all;
  }

  private SlowDisk disk(Supplier<OptionalLong> writes) {
    return new SlowDisk(LIMIT, writes);
  }

  @Test
  void moreTimeIsGivenWhileWritesAreCompletedAndHasAnEnd() {
    AtomicLong writes = new AtomicLong();
    assertEquals(
        LIMIT.multipliedBy(12), given(disk(() -> OptionalLong.of(writes.incrementAndGet()))));
    assertEquals(LIMIT.dividedBy(2), given(disk(() -> OptionalLong.of(7))), "none is completed");
    assertEquals(Duration.ZERO, given(disk(OptionalLong::empty)), "a server");
  }
}
