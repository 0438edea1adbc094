package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PageMapsTest {

  private Path images;
  private Path pagemap;

  @BeforeEach
  void makeMemory(@TempDir Path root) throws IOException {
    images = Files.createDirectory(root.resolve("criu"));
    pagemap = images.resolve("pagemap-7.img");
  }

  private void memory(int id, long pages) throws IOException {
    bytes(id, pages * Libc.PAGE_BYTES);
  }

  private void bytes(int id, long bytes) throws IOException {
    Path file = images.resolve("pages-" + id + ".img");
    try (RandomAccessFile content = new RandomAccessFile(file.toFile(), "rw")) {
      content.setLength(bytes);
    }
  }

  private void write(PageMapBytes content) {
    TestImages.write(pagemap, content.bytes());
  }

  private void check() throws IOException {
    try (PinnedDirectory held = PinnedDirectory.open(images.resolveSibling(""))) {
      PageMaps.requireComplete(held, held.path().resolve("criu"), "open", 7);
    }
  }

  private void refused(String reason) {
    ImageException e =
        assertReason(ImageException.class, ImageException.Reason.CORRUPT, this::check);
    TestImages.says(e, reason);
    TestImages.says(e, pagemap.toString());
  }

  private void refusedWith(PageMapBytes content, String reason) {
    write(content);
    refused(reason);
  }

  @Test
  void memoryThatIsAllThereIsGood() throws IOException {
    write(new PageMapBytes(3).run(0x1000, 4, PageMapBytes.PRESENT));
    memory(3, 4);
    check();
  }

  @Test
  @OutsideUse("D5")
  void memoryThatNoMapSpeaksOfIsRefusedBeforeItIsRead() throws IOException {
    write(new PageMapBytes(3).run(0x1000, 4, PageMapBytes.PRESENT));
    bytes(3, 2L << 40);
    pagemap = images.resolve("pages-3.img");
    refused("but the page maps require " + 4 * Libc.PAGE_BYTES);
    memory(3, 4);
    check();
    memory(8, 1);
    pagemap = images.resolve("pages-8.img");
    refused("but the page maps require 0");
  }

  @Test
  void memoryThatIsShortIsNot() throws IOException {
    write(
        new PageMapBytes(3)
            .run(0x1000, 4, PageMapBytes.PRESENT)
            .run(0x9000, 1, PageMapBytes.PRESENT | PageMapBytes.LAZY));
    bytes(3, 5 * Libc.PAGE_BYTES - 1);
    refused("needs %d bytes of pages-3.img".formatted(5 * Libc.PAGE_BYTES));
  }

  @Test
  void memoryThatIsMissingIsNot() {
    refusedWith(
        new PageMapBytes(3).run(0x1000, 1, PageMapBytes.PRESENT), "pages-3.img, which has 0");
  }

  @Test
  void pagesThatAreElsewhereNeedNoRoom() throws IOException {
    write(
        new PageMapBytes(3)
            .run(0x1000, 400, PageMapBytes.IN_PARENT)
            .run(0x900000, 400, PageMapBytes.LAZY)
            .run(0x1900000, 1, PageMapBytes.PRESENT));
    memory(3, 1);
    check();
  }

  @Test
  void theMemoryIsNamedByTheMapAndNotByTheProcess() throws IOException {
    write(new PageMapBytes(9).run(0x1000, 2, PageMapBytes.PRESENT));
    memory(7, 2);
    refused("pages-9.img");
    Files.delete(images.resolve("pages-7.img"));
    memory(9, 2);
    check();
  }

  @Test
  void mapsOfOlderVersionsOfCriuAreReadToo() throws IOException {
    memory(3, 5);
    // A run without flags is present, unless it is marked as being in the parent image.
    write(
        new PageMapBytes(3)
            .record(new PageMapBytes.Message().number(1, 0x1000).number(2, 5))
            .record(new PageMapBytes.Message().number(1, 0x9000).number(2, 8).number(3, 1)));
    check();
    refusedWith(
        new PageMapBytes(3)
            .record(new PageMapBytes.Message().number(1, 0x1000).number(2, 6).number(3, 0)),
        "needs");
  }

  @Test
  void fieldsOfLaterVersionsOfCriuAreSkipped() throws IOException {
    memory(3, 1);
    write(
        new PageMapBytes(3)
            .record(
                new PageMapBytes.Message()
                    .number(1, 0x1000)
                    .number(99, Long.MAX_VALUE)
                    .raw(6 << 3 | 2, 3, 1, 2, 3)
                    .raw(7 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8)
                    .raw(8 << 3 | 5, 1, 2, 3, 4)
                    .number(4, PageMapBytes.PRESENT)
                    .number(5, 1)));
    check();
  }

  @Test
  void everyMapIsChecked() throws IOException {
    write(new PageMapBytes(3).run(0x1000, 1, PageMapBytes.PRESENT));
    memory(3, 1);
    check();
    pagemap = images.resolve("pagemap-shmem-5.img");
    refusedWith(new PageMapBytes(4).run(0, 1, PageMapBytes.PRESENT), "pages-4.img");
  }

  @Test
  void mapsThatAreNoneAreRefused() {
    TestImages.write(pagemap, new byte[0]);
    refused("is truncated");
    TestImages.write(pagemap, PageMapBytes.int32(0x54564319));
    refused("is truncated");
    TestImages.write(pagemap, new byte[64]);
    refused("is not a page map");
  }

  @Test
  void mapsThatAreCutOffAreRefused() throws IOException {
    memory(3, 100);
    byte[] whole =
        new PageMapBytes(3)
            .run(0x1000, 50, PageMapBytes.PRESENT)
            .run(0x900000, 50, PageMapBytes.PRESENT)
            .bytes();
    byte[] first = new PageMapBytes(3).run(0x1000, 50, PageMapBytes.PRESENT).bytes();
    byte[] head = new PageMapBytes(3).bytes();
    for (int length = 0; length < whole.length; length++) {
      // A map that is truncated at the end of a record looks like a shorter map.
      if (length != head.length && length != first.length) {
        TestImages.write(pagemap, java.util.Arrays.copyOf(whole, length));
        refused("is truncated");
      }
    }
  }

  @Test
  void impossibleMapsAreRefused() throws IOException {
    memory(3, 1);
    refusedWith(new PageMapBytes(3).raw(PageMapBytes.int32(-1)), "impossible length");
    refusedWith(new PageMapBytes(3).raw(PageMapBytes.int32(4097)), "impossible length");
    refusedWith(new PageMapBytes(3).record(new PageMapBytes.Message()), "without a length");
    refusedWith(new PageMapBytes(3).run(0, -5, PageMapBytes.PRESENT), "without a length");
    refusedWith(
        new PageMapBytes(3)
            .run(0, Long.MAX_VALUE, PageMapBytes.PRESENT)
            .run(0, Long.MAX_VALUE, PageMapBytes.PRESENT),
        "is truncated or altered");
    refusedWith(
        new PageMapBytes(3).run(0, Long.MAX_VALUE, PageMapBytes.PRESENT),
        "is truncated or altered");
    refusedWith(
        new PageMapBytes(3).record(new PageMapBytes.Message().raw(1 << 3 | 4)), "unknown kind");
    refusedWith(
        new PageMapBytes(3).record(new PageMapBytes.Message().raw(6 << 3 | 2, 100, 1)),
        "impossible length");
    int[] endless = new int[12];
    java.util.Arrays.fill(endless, 0xff);
    endless[0] = 5 << 3;
    refusedWith(
        new PageMapBytes(3).record(new PageMapBytes.Message().raw(endless)), "without an end");
  }
}
