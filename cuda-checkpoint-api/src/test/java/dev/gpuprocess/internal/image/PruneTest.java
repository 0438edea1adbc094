package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.image.PruneReport;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.FileHold;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.state.Journal;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.options.RetentionPolicy;
import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The images that a policy removes from a store, and those that always stay. */
class PruneTest {

  private static final Instant FIRST = Instant.parse("2026-11-21T10:00:00Z");

  @TempDir Path temporary;
  private Path images;
  private final List<String> read = new ArrayList<>();
  private final VerificationCache known =
      new VerificationCache(
          (image, isCancelled) -> {
            read.add(name(image.path()));
            image.verify(isCancelled);
          });

  @BeforeEach
  void makeDirectory() throws IOException {
    images = Files.createDirectory(temporary.resolve("images"));
  }

  private ImageDirectory image(String name, int minutes) {
    return TestImages.publishAt(images.resolve(name), FIRST.plus(Duration.ofMinutes(minutes)));
  }

  private Journal journal() {
    return new Journal(new StateDirectory(temporary.resolve("state")));
  }

  private PruneReport prune(RetentionPolicy policy) {
    return new Retention(new StoreDirectory(images, null), journal())
        .prune(policy, known, () -> false);
  }

  private PruneReport keepLast(int count) {
    return prune(RetentionPolicy.builder().keepLast(count).build());
  }

  private static String name(Path path) {
    return path.getFileName().toString();
  }

  private static List<String> names(Collection<Path> paths) {
    return paths.stream().map(PruneTest::name).toList();
  }

  private List<String> left() throws IOException {
    return names(DurableFiles.list(images));
  }

  private static void damage(ImageDirectory image) throws IOException {
    Files.write(image.images().resolve("core-4242.img"), new byte[] {1}, StandardOpenOption.APPEND);
  }

  @Test
  void theNewestStayAndTheOldestGoFirst() throws IOException {
    for (int i = 0; i < 5; i++) {
      image("image" + i, i);
    }
    assertEquals(List.of("image0", "image1", "image2"), names(keepLast(2).removed()));
    assertEquals(List.of("image3", "image4"), left());
    assertEquals(new PruneReport(List.of(), Map.of()), keepLast(2));
    assertEquals(List.of(), journal().entries());
  }

  @Test
  void anImageThatContainsAnotherStays() throws IOException {
    ImageDirectory outer = image("outer", 0);
    image("newest", 1);
    TestImages.publishAt(outer.path().resolve("inner"), FIRST);
    PruneReport report = keepLast(1);
    assertEquals(List.of(), report.removed());
    assertEquals(
        "contains another image, " + outer.path().resolve("inner"),
        report.spared().get(outer.path()));
  }

  @Test
  void whatAnyRuleKeepsStays() throws IOException {
    for (int minutes = 0; minutes <= 300; minutes += 20) {
      image("at%03d".formatted(minutes), minutes);
    }
    prune(
        RetentionPolicy.builder()
            .keepLast(2)
            .keepOnePer(Duration.ofHours(1), Duration.ofHours(3))
            .keepOnePer(Duration.ofHours(4), Duration.ofDays(1))
            .build());
    // The newest two; the last of each hour since 12:00 (not 12:00 itself); the last before 12:00.
    assertEquals(List.of("at100", "at160", "at220", "at280", "at300"), left());
  }

  @Test
  void whatOthersMadeIsCountedApart() throws IOException {
    TestImages.publishAt(images.resolve("other"), FIRST.minusSeconds(9), "/bin/other");
    image("old", 0);
    image("new", 1);
    assertEquals(List.of("old"), names(keepLast(1).removed()));
    assertEquals(List.of("new", "other"), left());
  }

  @Test
  void aCancellationKeepsTheRest() throws IOException {
    for (int i = 0; i < 5; i++) {
      image("image" + i, i);
    }
    OperationCancelledException e =
        assertThrows(
            OperationCancelledException.class,
            () -> cancelled(() -> Files.notExists(images.resolve("image0"))));
    assertTrue(e.getMessage().contains("had removed 1 images"), e.getMessage());
    assertEquals(List.of("image1", "image2", "image3", "image4"), left());
    assertEquals(List.of(), journal().entries());
    assertThrows(OperationCancelledException.class, () -> cancelled(() -> true));
    assertEquals(List.of("image1", "image2", "image3", "image4"), left());
  }

  private PruneReport cancelled(BooleanSupplier isCancelled) {
    return new Retention(new StoreDirectory(images, null), journal())
        .prune(RetentionPolicy.builder().keepLast(1).build(), known, isCancelled);
  }

  @Test
  void theNewestThatVerifiesIsNeverLost() throws IOException {
    image("oldest", 0);
    image("good", 1);
    damage(image("bad", 2));
    damage(image("worse", 3));
    PruneReport report = keepLast(1);
    assertEquals(List.of("oldest"), names(report.removed()));
    assertEquals(List.of("worse", "bad"), names(report.spared().keySet()));
    assertTrue(
        report.spared().values().stream().allMatch(why -> why.startsWith("does not verify")),
        report::toString);
    assertEquals(List.of("bad", "good", "worse"), left());
  }

  @Test
  void whereNothingVerifiesNothingIsRemoved() throws IOException {
    for (int i = 0; i < 3; i++) {
      damage(image("image" + i, i));
    }
    PruneReport report = keepLast(1);
    assertEquals(List.of(), report.removed());
    assertEquals(3, report.spared().size());
    assertEquals(3, left().size());
  }

  @Test
  void whereTheNewestCannotBeReadOthersAreStillPruned() throws IOException {
    image("good", 0);
    ImageDirectory unreadable = image("unreadable", 1);
    DurableFiles.delete(unreadable.images());
    Files.createFile(unreadable.images());
    TestImages.publishAt(images.resolve("other old"), FIRST.minusSeconds(9), "/bin/other");
    TestImages.publishAt(images.resolve("other new"), FIRST.minusSeconds(8), "/bin/other");
    PruneReport report = keepLast(1);
    assertEquals(List.of("other old"), names(report.removed()));
    assertEquals(List.of("unreadable"), names(report.spared().keySet()));
    assertEquals(List.of("good", "other new", "unreadable"), left());
  }

  /** As when an operator moves another image to the path just before it is removed. */
  @Test
  void whatReplacedAnImageKeepsItsName() throws IOException {
    ImageDirectory old = image("old", 0);
    Path other = Files.createDirectory(temporary.resolve("other"));
    Files.createFile(other.resolve("file"));
    try (PinnedDirectory parent = PinnedDirectory.open(images);
        PinnedDirectory held = parent.child("old")) {
      Files.move(old.path(), temporary.resolve("moved"));
      Files.move(other, old.path());
      assertThrows(
          FileSystemException.class,
          () -> new ImageRemoval(old, null).remove(parent, held, Path.of("old")));
    }
    assertEquals(List.of("old"), left());
    assertTrue(Files.exists(old.path().resolve("file")));
    new ImageDirectory(temporary.resolve("moved"), old.manifest()).verify();
  }

  @Test
  void whatIsKnownToBeGoodIsNotReadAgain() throws IOException {
    image("a", 0);
    image("b", 1);
    assertEquals(1, keepLast(1).removed().size());
    assertEquals(List.of("b"), read);
    known.written(image("c", 2));
    assertEquals(List.of("b"), names(keepLast(1).removed()));
    assertEquals(List.of("b"), read, "what was written just now is known");
    ImageDirectory last = image("d", 3);
    known.written(last);
    damage(last);
    assertEquals(List.of(), keepLast(1).removed());
    assertEquals(List.of("b", "d"), read, "what was touched is read");
    assertEquals(List.of("d"), names(keepLast(1).spared().keySet()));
    assertEquals(List.of("b", "d"), read, "what is known to be bad is not read again");
  }

  @Test
  void whenNothingIsToGoNothingIsRead() {
    image("a", 0);
    image("b", 1);
    assertEquals(List.of(), keepLast(2).removed());
    assertEquals(List.of(), read);
  }

  @Test
  void whatIsBeingReadOrRestoredStays() throws IOException {
    ImageDirectory used = image("used", 0);
    image("old", 1);
    image("new", 2);
    try (VerifiedImage reading = used.verified()) {
      PruneReport report = keepLast(1);
      assertEquals(List.of("old"), names(report.removed()));
      assertEquals("is being read or restored", report.spared().get(reading.directory().name()));
    }
    assertEquals(List.of("used"), names(keepLast(1).removed()));
    assertEquals(List.of("new"), left());
  }

  @Test
  void whatIsBeingRemovedIsNoImage() throws IOException {
    ImageDirectory image = image("image", 0);
    try (FileHold removing =
        FileHold.alone(image.path().resolve(ManifestFile.NAME)).orElseThrow()) {
      ImageException e =
          assertReason(ImageException.class, ImageException.Reason.MISSING, image::verify);
      TestImages.says(e, "is being removed");
    }
    image.verify();
  }

  @Test
  void whatAProcessMapsStays() throws IOException {
    ImageDirectory mapped = TestImages.publishWithMemory(images.resolve("mapped"), FIRST);
    TestImages.publishWithMemory(images.resolve("not mapped"), FIRST.plusSeconds(1));
    TestImages.publishWithMemory(images.resolve("new"), FIRST.plusSeconds(2));
    try (FileChannel memory = FileChannel.open(mapped.path().resolve(TestImages.MEMORY))) {
      MappedByteBuffer process = memory.map(FileChannel.MapMode.READ_ONLY, 0, memory.size());
      PruneReport report = keepLast(1);
      assertEquals(List.of("not mapped"), names(report.removed()), report::toString);
      assertEquals(
          "is mapped by process %s, until the process is resumed"
              .formatted(ProcessHandle.current().pid()),
          report.spared().get(mapped.path()));
      assertEquals(memory.size(), process.limit());
    }
    mapped.verify();
  }

  @Test
  void linksAndStrangersAreNotTouched() throws IOException {
    Path elsewhere = Files.createDirectory(temporary.resolve("elsewhere"));
    TestImages.publishAt(elsewhere.resolve("image"), FIRST.minusSeconds(60));
    Files.createSymbolicLink(images.resolve("link"), elsewhere.resolve("image"));
    Files.createDirectory(images.resolve("directory"));
    Path inside = Files.createFile(images.resolve("directory").resolve("file"));
    Files.createFile(images.resolve("file"));
    Files.delete(image("no manifest", -1).path().resolve(ManifestFile.NAME));
    Files.setPosixFilePermissions(
        image("writable by all", -1).path(), PosixFilePermissions.fromString("rwxrwxrwx"));
    image("old", 0);
    image("new", 1);
    assertEquals(List.of("old"), names(keepLast(1).removed()));
    assertEquals(
        List.of("directory", "file", "link", "new", "no manifest", "writable by all"), left());
    assertTrue(Files.exists(inside));
    assertTrue(Files.exists(elsewhere.resolve("image").resolve(ManifestFile.NAME)));
  }

  @Test
  void severalCanPruneAtOnce() throws Exception {
    for (int i = 0; i < 8; i++) {
      image("image" + i, i);
    }
    ExecutorService threads = Executors.newFixedThreadPool(3);
    try {
      List<Callable<PruneReport>> work = new ArrayList<>();
      for (int keep : new int[] {1, 2, 3}) {
        work.add(
            () ->
                new Retention(new StoreDirectory(images, null), journal())
                    .prune(
                        RetentionPolicy.builder().keepLast(keep).build(),
                        new VerificationCache(),
                        () -> false));
      }
      List<Path> removed = new ArrayList<>();
      for (Future<PruneReport> done : threads.invokeAll(work)) {
        removed.addAll(done.get().removed());
      }
      assertEquals(removed.stream().distinct().count(), removed.size(), removed::toString);
    } finally {
      threads.shutdownNow();
    }
    keepLast(1);
    assertEquals(List.of("image7"), left());
    new StoreDirectory(images, null).read().images().get(0).verify();
  }

  @Test
  @OutsideUse("B2")
  void anInterruptedThreadLeavesNoHiddenImage() throws IOException {
    image("old", 0);
    image("newest", 1);
    Thread.currentThread().interrupt();
    try {
      assertEquals(List.of("old"), names(keepLast(1).removed()));
    } finally {
      assertTrue(Thread.interrupted(), "the flag stays");
    }
    assertEquals(List.of("newest"), left());
  }

  /** Otherwise its dump would fail, or kill the process for an incomplete image. */
  @Test
  void whatAnotherMachineIsWritingStays() throws IOException {
    image("old", 0);
    image("newest", 1);
    DirectoryMaker dead = TestImages.deadMaker();
    Path left = partial(dead);
    Path elsewhere = partial(new DirectoryMaker("00000000", dead.namespace(), dead.process()));
    assertEquals(List.of("old"), names(keepLast(1).removed()));
    assertFalse(Files.exists(left));
    assertTrue(Files.exists(elsewhere.resolve("core-4242.img")));
  }

  @Test
  void aLinkInASupersededImageIsNotFollowed() throws IOException {
    Path treasure = Files.writeString(temporary.resolve("treasure"), "gold");
    Files.createSymbolicLink(image("old", 0).images().resolve("pages-9.img"), treasure);
    image("newest", 1);
    assertEquals(List.of("old"), names(keepLast(1).removed()));
    assertEquals("gold", Files.readString(treasure));
  }

  private Path partial(DirectoryMaker maker) throws IOException {
    Path made = images.resolve(new StagingName(maker, TestImages.PROCESS).text());
    DurableFiles.createDirectory(made);
    Files.createFile(made.resolve("core-4242.img"));
    return made;
  }
}
