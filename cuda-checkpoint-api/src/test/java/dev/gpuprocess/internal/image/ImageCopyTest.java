package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.internal.linux.FileHold;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Cancellation;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CyclicBarrier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A copy is complete, or does not exist. */
@Timeout(120)
@Tag("slow")
class ImageCopyTest {

  private static final String PAGES = "criu/pages-1.img";

  private Path root;
  private Path original;
  private Path parent;
  private Path target;
  private ImageDirectory image;

  @BeforeEach
  void publish(@TempDir Path directory) throws IOException {
    root = directory;
    original = Files.createDirectory(root.resolve("there")).resolve("job-42");
    parent = Files.createDirectory(root.resolve("here"));
    target = parent.resolve("copy");
    image = TestImages.publish(original, null);
  }

  private static WorkLimit unlimited() {
    return WorkLimit.readingAtLength("copy", 0, () -> false);
  }

  private ImageCopy.Result copy() {
    return copy(ImageDirectory.open(original), null);
  }

  private ImageCopy.Result copy(ImageDirectory from, @Nullable ImageKey key) {
    return ImageCopy.make(from, target, key, unlimited());
  }

  private static Map<String, byte[]> content(Path image) throws IOException {
    Map<String, byte[]> all = new TreeMap<>();
    try (Stream<Path> files = Files.walk(image)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        all.put(image.relativize(file).toString(), Files.readAllBytes(file));
        assertEquals("rw-------", mode(file), file::toString);
      }
    }
    return all;
  }

  private static String mode(Path file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
  }

  private static List<Path> entries(Path directory) throws IOException {
    try (Stream<Path> entries = Files.list(directory)) {
      return entries.sorted().toList();
    }
  }

  private void assertSame(Path from, @Nullable ImageKey key) throws IOException {
    Map<String, byte[]> expected = content(from);
    Map<String, byte[]> found = content(target);
    assertEquals(expected.keySet(), found.keySet());
    expected.forEach((name, bytes) -> assertArrayEquals(bytes, found.get(name), name));
    assertEquals("rwx------", mode(target));
    assertEquals(List.of(target), entries(parent));
    ImageDirectory.open(target, key).verify();
  }

  private ImageException refused(ImageException.Reason reason) throws IOException {
    ImageException e = assertReason(ImageException.class, reason, this::copy);
    assertFalse(Files.exists(target, LinkOption.NOFOLLOW_LINKS));
    return e;
  }

  private static void flipABit(Path file) throws IOException {
    byte[] content = Files.readAllBytes(file);
    content[content.length / 2] ^= 4;
    Files.write(file, content);
  }

  @Test
  void aCopyIsTheSame() throws IOException {
    ImageCopy.Result made = copy();
    assertSame(original, null);
    assertEquals(target, made.image().path());
    assertEquals(image.manifest(), made.image().manifest());
    assertEquals(image.manifest().bytes(), made.copied());
    assertEquals(0, made.found());
  }

  @Test
  void memoryFilesAndSignaturesAreCopied() throws IOException {
    Path withMemory = root.resolve("with-memory");
    copy(TestImages.publishWithMemory(withMemory), null);
    assertSame(withMemory, null);
    ImageDirectory first = ImageDirectory.open(target);
    assertTrue(first.manifest().files().stream().anyMatch(f -> f.path().startsWith("gpu/")));

    ImageKey key = TestImages.key(root.resolve("key"), 5);
    Path signed = root.resolve("signed");
    TestImages.publish(signed, key);
    target = Files.createDirectory(root.resolve("other")).resolve("copy");
    parent = target.getParent();
    copy(ImageDirectory.open(signed, key), key);
    assertSame(signed, key);

    // A copy without the key keeps the signature.
    target = Files.createDirectory(root.resolve("third")).resolve("copy");
    parent = target.getParent();
    copy(ImageDirectory.open(signed), null);
    assertSame(signed, key);
  }

  @Test
  void aFlippedBitIsFound_andTheNextCopyContinues() throws IOException {
    Path pages = original.resolve(PAGES);
    byte[] good = Files.readAllBytes(pages);
    flipABit(pages);
    ImageException e = refused(ImageException.Reason.CORRUPT);
    TestImages.says(e, pages.toString());
    assertEquals(1, entries(parent).size(), "the part that is good stays");

    Files.write(pages, good);
    ImageCopy.Result made = copy();
    assertSame(original, null);
    assertTrue(made.copied() >= good.length, made::toString);
    assertTrue(made.found() > 0, made::toString);
    assertEquals(image.manifest().bytes(), made.copied() + made.found());
  }

  @ParameterizedTest
  @ValueSource(strings = {"missing", "short", "long", "surplus", "link", "fifo", "directory link"})
  @OutsideUse("D7")
  void whatIsNotAFileOfTheImageIsRefused(String how) throws IOException, InterruptedException {
    Path pages = original.resolve(PAGES);
    Path aside = root.resolve("aside");
    switch (how) {
      case "missing" -> Files.delete(pages);
      case "short" -> Files.write(pages, new byte[100]);
      case "long" -> Files.write(pages, new byte[1], StandardOpenOption.APPEND);
      case "surplus" -> Files.write(original.resolve("criu/-rf"), new byte[1]);
      case "link" -> {
        Files.move(pages, aside);
        Files.createSymbolicLink(pages, aside);
      }
      case "fifo" -> {
        Files.delete(pages);
        assertEquals("", Mount.run("mkfifo", pages.toString()));
      }
      default -> {
        Files.move(original.resolve("criu"), aside);
        Files.createSymbolicLink(original.resolve("criu"), aside);
      }
    }
    ImageException unused = refused(ImageException.Reason.CORRUPT);
    assertEquals(List.of(), entries(parent), "nothing was begun");
  }

  /** Another user may create it after the check. */
  @Test
  @OutsideUse("D7")
  void aFifoOrALinkIsNotWaitedForAndNotFollowed() throws IOException, InterruptedException {
    Path fifo = root.resolve("fifo");
    assertEquals("", Mount.run("mkfifo", fifo.toString()));
    Path link = Files.createSymbolicLink(root.resolve("link"), original.resolve(PAGES));
    for (Path each : List.of(fifo, link)) {
      IOException e =
          assertThrows(
              IOException.class, () -> ChunkChecksum.read(each, 0, 1, part -> {}, unlimited()));
      TestImages.says(e, each.toString());
    }
  }

  /** A manifest cannot name a file outside of the image. */
  @Test
  @OutsideUse("D7")
  void hostileNamesInTheManifestAreRefused() throws IOException {
    String text = Files.readString(original.resolve(ManifestFile.NAME));
    for (String name : List.of("criu/../../escaped", "/escaped", "criu/a/b", "criu/.hidden")) {
      String hostile = text.replace(PAGES, name);
      TestImages.forge(original, hostile.getBytes(StandardCharsets.UTF_8));
      ImageException unused = refused(ImageException.Reason.CORRUPT);
    }
    assertEquals(List.of(), entries(parent));
  }

  @Test
  @RequiresRoot("gives files to another user")
  void filesOfAnotherUserAreTrustedWithAKeyOnly() throws IOException {
    ImageKey key = TestImages.key(root.resolve("key"), 5);
    Path signed = root.resolve("signed");
    TestImages.publish(signed, key);
    for (Path image : List.of(original, signed)) {
      try (Stream<Path> all = Files.walk(image)) {
        for (Path each : all.toList()) {
          Files.setAttribute(each, "unix:uid", 65534);
        }
      }
    }
    assertReason(
        ImageException.class,
        ImageException.Reason.NOT_TRUSTED,
        () -> ImageDirectory.openToCopy(original, null));
    assertReason(
        ImageException.class,
        ImageException.Reason.NOT_TRUSTED,
        () -> ImageDirectory.openToCopy(original, key));
    assertReason(
        ImageException.class,
        ImageException.Reason.NOT_TRUSTED,
        () -> ImageDirectory.open(signed, key));

    copy(ImageDirectory.openToCopy(signed, key), key);
    assertSame(signed, key);

    flipABit(signed.resolve(PAGES));
    target = parent.resolve("another");
    ImageDirectory altered = ImageDirectory.openToCopy(signed, key);
    assertReason(ImageException.class, ImageException.Reason.CORRUPT, () -> copy(altered, key));
    assertFalse(Files.exists(target));
  }

  @Test
  @RequiresRoot("mounts a file system in memory")
  void aFullDiskLeavesNothing() throws IOException, InterruptedException {
    try (Mount small = Mount.tmpfs(root.resolve("small"), "64k")) {
      target = small.path().resolve("copy");
      TestImages.says(refused(ImageException.Reason.DISK_FULL), "free");
      assertEquals(List.of(), entries(small.path()));
    }
    try (Mount few = Mount.tmpfs(root.resolve("few"), "1m,nr_inodes=12")) {
      target = few.path().resolve("copy");
      TestImages.says(refused(ImageException.Reason.DISK_FULL), target.toString());
      assertEquals(List.of(), entries(few.path()), "it was found out while it was copied");
    }
  }

  @Test
  void aCopyWhoseJvmWasKilledIsContinued() throws IOException {
    List<ChecksummedFile> files = image.manifest().files();
    try (OtherJvm jvm =
        OtherJvm.start("copy", target.toString(), original.toString()).awaitBegun()) {
      assertEquals(List.of(), AbandonedImage.in(parent), () -> jvm.identity() + " lives");
      assertFalse(Files.exists(target));
    }
    List<AbandonedImage> left = AbandonedImage.in(parent);
    assertEquals(1, left.size());
    // Torn by a kill, too long, or foreign.
    Path partial = left.get(0).path();
    Path torn = partial.resolve(files.get(1).path());
    Files.write(torn, Arrays.copyOf(Files.readAllBytes(torn), 7));
    flipABit(partial.resolve(files.get(2).path()));
    Files.write(partial.resolve(files.get(3).path()), new byte[9], StandardOpenOption.APPEND);
    Files.write(partial.resolve("criu/foreign"), new byte[9]);
    Files.write(partial.resolve(ManifestFile.SUM_NAME), new byte[9]);

    ImageCopy.Result made = copy();

    assertSame(original, null);
    long again = files.get(1).bytes() + files.get(2).bytes();
    long there =
        files.subList(0, OtherJvm.COPIED_FILES).stream().mapToLong(ChecksummedFile::bytes).sum();
    assertEquals(there - again, made.found());
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aPartialCopyIsRemovedByAnotherImage(boolean copied) throws IOException {
    try (OtherJvm jvm =
        OtherJvm.start("copy", target.toString(), original.toString()).awaitBegun()) {
      assertEquals(1, entries(parent).size(), () -> jvm.identity().toString());
    }
    if (copied) {
      ImageDirectory another =
          TestImages.publishAt(root.resolve("newer"), Instant.parse("2026-11-22T10:00:00Z"));
      assertEquals(0, copy(another, null).found());
    } else {
      TestImages.publish(target, null);
    }
    assertEquals(List.of(target), entries(parent));
  }

  @Test
  void ofTwoCopiesToOnePlaceOneSucceeds() throws IOException {
    for (int round = 0; round < 20; round++) {
      target = parent.resolve("copy-" + round);
      CyclicBarrier together = new CyclicBarrier(2);
      List<CompletableFuture<Void>> both = new ArrayList<>();
      for (int i = 0; i < 2; i++) {
        both.add(
            CompletableFuture.runAsync(
                () -> {
                  meet(together);
                  copy();
                }));
      }
      List<Throwable> failures = new ArrayList<>();
      for (CompletableFuture<Void> each : both) {
        try {
          each.join();
        } catch (CompletionException e) {
          failures.add(e.getCause());
        }
      }
      assertEquals(1, failures.size(), failures::toString);
      assertReason(ImageException.class, ImageException.Reason.DIRECTORY, failures.get(0));
      ImageDirectory.open(target).verify();
      assertEquals(round + 1, entries(parent).size(), "nothing of the other one is left");
    }
  }

  private static void meet(CyclicBarrier together) {
    try {
      together.await();
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  /** Both continue the same partial copy. */
  @Test
  void aPartialCopyIsContinuedByOne() throws IOException {
    for (int round = 0; round < 10; round++) {
      flipABit(original.resolve(PAGES));
      assertReason(ImageException.class, ImageException.Reason.CORRUPT, this::copy);
      flipABit(original.resolve(PAGES));
      CyclicBarrier together = new CyclicBarrier(2);
      List<CompletableFuture<Path>> both = new ArrayList<>();
      for (int i = 0; i < 2; i++) {
        Path place = parent.resolve("copy-%s-%s".formatted(round, i));
        both.add(
            CompletableFuture.supplyAsync(
                () -> {
                  meet(together);
                  return ImageCopy.make(image, place, null, unlimited()).image().path();
                }));
      }
      for (CompletableFuture<Path> each : both) {
        ImageDirectory.open(each.join()).verify();
      }
      assertEquals(2 * round + 2, entries(parent).size(), "nothing partial is left");
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"file", "directory", "link", "image"})
  void whatIsThereIsNotReplaced(String what) throws IOException {
    switch (what) {
      case "file" -> Files.write(target, new byte[1]);
      case "directory" -> Files.createDirectories(target.resolve("data"));
      case "link" -> Files.createSymbolicLink(target, Files.createDirectory(root.resolve("empty")));
      default -> TestImages.publish(target, null);
    }
    List<Path> before = entries(root);
    assertReason(ImageException.class, ImageException.Reason.DIRECTORY, this::copy);
    assertEquals(List.of(target), entries(parent));
    assertEquals(before, entries(root));
  }

  @Test
  void anEmptyDirectoryIsReplaced() throws IOException {
    Files.createDirectory(target);
    copy();
    assertSame(original, null);
  }

  @Test
  void aCancelledCopyLeavesNothing() throws IOException {
    Cancellation cancellation = new Cancellation();
    WorkLimit limit = WorkLimit.readingAtLength("copy", 0, cancellation::isCancelled);
    try (ImageCopy copy = ImageCopy.begin(image, target, null, limit)) {
      copy.copy(image.manifest().files().get(0));
      assertEquals(1, entries(parent).size());
      cancellation.cancel();
      assertThrows(OperationCancelledException.class, copy::run);
    }
    assertEquals(List.of(), entries(parent));

    GpuCheckpointException e =
        assertThrows(
            OperationCancelledException.class, () -> ImageCopy.make(image, target, null, limit));
    TestImages.says(e, "was cancelled");
    assertEquals(List.of(), entries(parent));
    image.verify();
  }

  @Test
  void theOriginalIsInUseMeanwhile() throws IOException {
    Path manifest = original.resolve(ManifestFile.NAME);
    try (ImageCopy copy = ImageCopy.begin(image, target, null, unlimited())) {
      assertTrue(FileHold.alone(manifest).isEmpty(), "it cannot be removed");
      copy.run();
    }
    FileHold.alone(manifest).orElseThrow().close();
  }

  /** Several chunks, of which one is torn; and a sparse file of zeroes. */
  @Test
  void aLargeFileIsContinuedInItsMiddle() throws IOException {
    Path large = root.resolve("large");
    int tail = 5 << 12;
    ImageDirectory big;
    try (StagedImage staged = StagedImage.create(large, TestImages.PROCESS, 0, null)) {
      TestImages.fill(staged.images(), new Random(1));
      Path pages = staged.images().resolve("cgroup.img");
      try (RandomAccessFile file = new RandomAccessFile(pages.toFile(), "rw")) {
        file.setLength(ChecksummedFile.CHUNK_BYTES + tail);
        file.seek(ChecksummedFile.CHUNK_BYTES);
        file.write(TestImages.bytes(new Random(4), tail));
      }
      big = staged.publish(TestImages::manifest);
      staged.logUnwanted();
    }
    try (ImageCopy copy = ImageCopy.begin(big, target, null, unlimited())) {
      for (ChecksummedFile file : big.manifest().files()) {
        copy.copy(file);
      }
    }
    Path partial = AbandonedImage.in(parent).get(0).path();
    flipABit(partial.resolve("criu/files.img"));
    try (RandomAccessFile file =
        new RandomAccessFile(partial.resolve("criu/cgroup.img").toFile(), "rw")) {
      file.seek(ChecksummedFile.CHUNK_BYTES + 3);
      file.write(file.read() + 1);
    }
    long files = Files.size(large.resolve("criu/files.img"));
    assertEquals(tail + files, copy(big, null).copied());
    assertSame(large, null);
  }
}
