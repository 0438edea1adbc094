package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.StoredImage;
import dev.gpuprocess.internal.linux.StagingName;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The content of a store for directories with foreign files. */
class StoreDirectoryTest {

  private static final Instant FIRST = Instant.parse("2026-11-21T10:00:00Z");

  @TempDir Path temporary;
  private Path images;

  @BeforeEach
  void makeDirectory() throws IOException {
    images = Files.createDirectory(temporary.resolve("images"));
  }

  private StoreDirectory.Content read() {
    return new StoreDirectory(images, null).read();
  }

  private static List<String> names(List<StoredImage> found) {
    return found.stream().map(each -> each.directory().getFileName().toString()).toList();
  }

  @Test
  void imagesComeNewestFirstWhateverTheirNames() {
    TestImages.publishAt(images.resolve("b"), FIRST);
    TestImages.publishAt(images.resolve("c"), FIRST.plusSeconds(2));
    TestImages.publishAt(images.resolve("a"), FIRST.plusSeconds(1));
    List<StoredImage> all = read().all();
    assertEquals(List.of("c", "a", "b"), names(all));
    StoredImage newest = all.get(0);
    assertTrue(newest.isComplete());
    assertEquals(FIRST.plusSeconds(2), newest.manifest().created());
    assertEquals(images.resolve("c"), newest.directory());
    assertTrue(newest.toString().contains("of process 4242"), newest::toString);
  }

  @Test
  void whatIsNoImageIsNamedAndLeftAlone() throws IOException {
    Path elsewhere = Files.createDirectory(temporary.resolve("elsewhere"));
    TestImages.publishAt(elsewhere.resolve("image"), FIRST);
    TestImages.publishAt(images.resolve("good"), FIRST);
    Files.createSymbolicLink(images.resolve("link"), elsewhere.resolve("image"));
    Files.createSymbolicLink(images.resolve("nowhere"), temporary.resolve("nothing"));
    Files.createFile(images.resolve("file"));
    Files.createDirectory(images.resolve("empty"));
    TestImages.publishAt(images.resolve("a\nb\u001b[31m"), FIRST);
    TestImages.write(
        TestImages.publishAt(images.resolve("altered"), FIRST).path().resolve(ManifestFile.NAME),
        new byte[] {'{', '}'});
    Files.setPosixFilePermissions(
        TestImages.publishAt(images.resolve("writable"), FIRST).path(),
        PosixFilePermissions.fromString("rwxrwxrwx"));
    String half = StagingName.of(TestImages.PROCESS).text();
    Files.createDirectory(images.resolve(half));

    StoreDirectory.Content content = read();

    assertEquals(1, content.images().size());
    assertTrue(content.isBeingWritten());
    Map<String, String> told =
        content.others().stream()
            .collect(
                Collectors.toMap(
                    each -> each.directory().getFileName().toString(), StoredImage::problem));
    Map<String, String> expected =
        Map.of(
            "link",
            "is a link",
            "nowhere",
            "is a link",
            "file",
            "is not a directory",
            "empty",
            "has no manifest.json",
            "a\nb\u001b[31m",
            "has a name",
            "altered",
            "does not match",
            "writable",
            "by others",
            half,
            "is a partial image");
    assertEquals(expected.keySet(), told.keySet());
    expected.forEach((name, why) -> assertTrue(told.get(name).contains(why), told.get(name)));
    for (StoredImage other : content.others()) {
      assertFalse(other.isComplete());
      assertNull(other.manifest());
      assertFalse(other.toString().contains("\n"), other::toString);
    }
  }

  @Test
  void aHalfImageOfADeadMakerIsNotBeingWritten() throws IOException {
    StagingName dead = new StagingName(TestImages.deadMaker(), TestImages.PROCESS);
    Files.createDirectory(images.resolve(dead.text()));
    assertFalse(read().isBeingWritten());
    assertEquals(1, read().others().size());
  }

  @Test
  void aDirectoryThatIsNotThereIsEmptyAndAFileIsRefused() throws IOException {
    assertEquals(List.of(), new StoreDirectory(images.resolve("none"), null).read().all());
    Path file = Files.createFile(temporary.resolve("file"));
    assertReason(
        ImageException.class,
        ImageException.Reason.DIRECTORY,
        () -> new StoreDirectory(file, null).read());
  }

  @Test
  void theStoreItselfMayBeALink() throws IOException {
    TestImages.publishAt(images.resolve("image"), FIRST);
    Path link = Files.createSymbolicLink(temporary.resolve("store"), images);
    assertEquals(List.of("image"), names(new StoreDirectory(link, null).read().all()));
  }
}
