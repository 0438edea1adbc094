package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.StateDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The images that a newer image supersedes. */
class RetentionTest {

  private static final Instant FIRST = Instant.parse("2026-11-21T10:00:00Z");

  @TempDir Path temporary;
  private Path images;

  @BeforeEach
  void makeParent() throws IOException {
    images = Files.createDirectory(temporary.resolve("images"));
  }

  /** An image made so many minutes after the first. */
  private ImageDirectory image(String name, int minutes) {
    return TestImages.publishAt(images.resolve(name), FIRST.plus(Duration.ofMinutes(minutes)));
  }

  private List<String> left() throws IOException {
    return DurableFiles.list(images).stream().map(path -> path.getFileName().toString()).toList();
  }

  private static List<String> names(List<Path> paths) {
    return paths.stream().map(path -> path.getFileName().toString()).toList();
  }

  private List<Path> keep(ImageDirectory newest, int count) {
    Journal journal = new Journal(new StateDirectory(temporary.resolve("state")));
    return new Retention(new StoreDirectory(images, null), journal).removeOlder(newest, count);
  }

  @Test
  void keep_fiveImages_removesTheOldestInOrder() throws IOException {
    IntStream.range(0, 4).forEach(number -> image("image" + (3 - number), number));
    ImageDirectory newest = image("newest", 9);
    assertEquals(List.of("image3", "image2", "image1"), names(keep(newest, 2)));
    assertEquals(List.of("image0", "newest"), left());
    newest.verify();
    assertEquals(List.of(), keep(newest, 2));
  }

  @Test
  @OutsideUse("B2")
  void keep_onAnInterruptedThread_leavesNoHiddenImage() throws IOException {
    image("old", 0);
    ImageDirectory newest = image("newest", 1);
    Thread.currentThread().interrupt();
    try {
      assertEquals(List.of("old"), names(keep(newest, 1)));
    } finally {
      assertTrue(Thread.interrupted(), "the flag stays");
    }
    assertEquals(List.of("newest"), left());
  }

  /** Otherwise its dump would fail, or kill the process for an incomplete image. */
  @Test
  void keep_imageThatAnotherMachineIsWriting_stays() throws IOException {
    image("old", 0);
    ImageDirectory newest = image("newest", 1);
    DirectoryMaker dead = TestImages.deadMaker();
    Path left = partial(dead);
    Path elsewhere = partial(new DirectoryMaker("00000000", dead.namespace(), dead.process()));
    assertEquals(List.of("old"), names(keep(newest, 1)));
    assertFalse(Files.exists(left));
    assertTrue(Files.exists(elsewhere.resolve("core-4242.img")));
  }

  private Path partial(DirectoryMaker maker) throws IOException {
    Path made = images.resolve(new StagingName(maker, TestImages.PROCESS).text());
    DurableFiles.createDirectory(made);
    Files.createFile(made.resolve("core-4242.img"));
    return made;
  }

  @Test
  void keep_newestIsDamaged_removesNothing() throws IOException {
    image("old", 0);
    ImageDirectory newest = image("newest", 1);
    Files.write(newest.images().resolve("core-4242.img"), new byte[] {1});
    assertReason(ImageException.class, ImageException.Reason.CORRUPT, () -> keep(newest, 1));
    assertEquals(List.of("newest", "old"), left());
  }

  @Test
  void keep_oneThatShouldStayIsDamaged_doesNotCountAndStays() throws IOException {
    image("old", 0);
    image("older", -1);
    Files.write(image("damaged", 1).images().resolve("core-4242.img"), new byte[] {1});
    assertEquals(List.of("older"), names(keep(image("newest", 2), 2)));
    assertEquals(List.of("damaged", "newest", "old"), left());
  }

  @Test
  void keep_newerOnesAndThoseOfOthers_stay() throws IOException {
    image("later", 2);
    image("same time", 1);
    TestImages.publishAt(images.resolve("another program"), FIRST, "/bin/true");
    assertEquals(List.of(), keep(image("newest", 1), 1));
    assertEquals(List.of("another program", "later", "newest", "same time"), left());
  }

  @Test
  void keep_whatIsNoImageOfOurs_isNotTouched() throws IOException {
    Path elsewhere = Files.createDirectory(temporary.resolve("elsewhere"));
    Files.move(image("moved", 0).path(), elsewhere.resolve("image"));
    Files.createSymbolicLink(images.resolve("link"), elsewhere.resolve("image"));
    Files.createDirectory(images.resolve("directory"));
    Files.createFile(images.resolve("file"));
    Files.delete(image("no manifest", 0).path().resolve(ManifestFile.NAME));
    Files.setPosixFilePermissions(
        image("writable by all", 0).path(), PosixFilePermissions.fromString("rwxrwxrwx"));
    ImageDirectory newest = image("newest", 1);
    assertEquals(List.of(), keep(newest, 1));
    assertEquals(
        List.of("directory", "file", "link", "newest", "no manifest", "writable by all"), left());
    assertTrue(Files.exists(elsewhere.resolve("image").resolve(ManifestFile.NAME)));
  }

  @Test
  void keep_linkInASupersededImage_isRemovedAndNotFollowed() throws IOException {
    Path treasure = Files.writeString(temporary.resolve("treasure"), "gold");
    Files.createSymbolicLink(image("old", 0).images().resolve("pages-9.img"), treasure);
    assertEquals(List.of("old"), names(keep(image("newest", 1), 1)));
    assertEquals("gold", Files.readString(treasure));
  }

  @Test
  void keep_zero_refused() {
    ImageDirectory newest = image("newest", 1);
    assertThrows(IllegalArgumentException.class, () -> keep(newest, 0));
  }
}
