package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.PinnedDirectory;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AbandonedImageTest {

  private static List<Path> entries(Path directory) throws IOException {
    try (Stream<Path> entries = Files.list(directory)) {
      return entries.sorted().toList();
    }
  }

  @Test
  void whatADeadMakerLeftIsFoundAndRemoved(@TempDir Path parent) throws IOException {
    ProcessIdentity maker;
    try (OtherJvm jvm = OtherJvm.start("begin", parent.resolve("job").toString()).awaitBegun()) {
      maker = jvm.identity();
      assertEquals(1, entries(parent).size());
      assertEquals(List.of(), AbandonedImage.in(parent), "its maker lives");
    }
    List<AbandonedImage> found = AbandonedImage.in(parent);
    assertEquals(1, found.size());
    AbandonedImage half = found.get(0);
    assertEquals(maker, half.maker());
    assertEquals(Optional.of(maker), half.process(), "it said that it dumps itself");
    assertEquals(entries(parent), List.of(half.path()));
    half.remove();
    half.remove();
    assertEquals(List.of(), entries(parent));
    assertEquals(List.of(), AbandonedImage.in(parent));
  }

  @Test
  void whatThisJvmMakesIsNotAbandoned(@TempDir Path parent) {
    try (StagedImage staged =
        StagedImage.create(parent.resolve("job"), TestImages.PROCESS, 0, null)) {
      TestImages.fill(staged.images(), new Random(1));
      assertEquals(List.of(), AbandonedImage.in(parent));
    }
  }

  @Test
  void completeImagesAndOtherThingsAreLeftAlone(@TempDir Path parent) throws IOException {
    TestImages.publish(parent.resolve("job"), null);
    Files.createDirectory(parent.resolve(".gpuprocess-of-another.partial"));
    Files.createDirectory(parent.resolve(".job.5c1d.partial"));
    Files.createFile(parent.resolve("file"));
    assertEquals(List.of(), AbandonedImage.in(parent));
  }

  private static StagingName abandoned() throws IOException {
    return new StagingName(TestImages.deadMaker(), TestImages.PROCESS);
  }

  @Test
  void aPidThatBelongsToAnotherNowIsNotTheMaker(@TempDir Path parent) throws IOException {
    Path half = Files.createDirectory(parent.resolve(abandoned().text()));
    assertEquals(half, AbandonedImage.in(parent).get(0).path());
  }

  @Test
  void aMakerFromBeforeTheLastBootIsDead(@TempDir Path parent) throws IOException {
    DirectoryMaker self = DirectoryMaker.current();
    StagingName before =
        new StagingName(
            new DirectoryMaker("00000000", self.namespace(), self.process()), TestImages.PROCESS);
    Files.createDirectory(parent.resolve(before.text()));
    AbandonedImage half = AbandonedImage.in(parent).get(0);
    assertEquals(Optional.empty(), half.process(), "its pid means nothing any more");
  }

  @Test
  void aMakerInAnotherPidNamespaceCountsAsAlive(@TempDir Path parent) throws IOException {
    DirectoryMaker dead = TestImages.deadMaker();
    StagingName elsewhere =
        new StagingName(new DirectoryMaker(dead.boot(), "1", dead.process()), TestImages.PROCESS);
    Files.createDirectory(parent.resolve(elsewhere.text()));
    assertEquals(List.of(), AbandonedImage.in(parent));
  }

  private static Path elsewhere(Path parent) throws IOException {
    DirectoryMaker dead = TestImages.deadMaker();
    StagingName otherHost =
        new StagingName(
            new DirectoryMaker("00000000", dead.namespace(), dead.process()), TestImages.PROCESS);
    return Files.createDirectory(parent.resolve(otherHost.text()));
  }

  @Test
  void ofMakersElsewhere_thoseWithoutASignOfLifeAreRemoved(@TempDir Path parent)
      throws IOException {
    Path otherHost = elsewhere(parent);
    Path container =
        Files.createDirectory(
            parent.resolve(
                new StagingName(
                        new DirectoryMaker(
                            DirectoryMaker.current().boot(), "1", TestImages.deadMaker().process()),
                        TestImages.PROCESS)
                    .text()));
    AbandonedImage.removeIn(parent);
    assertEquals(List.of(container, otherHost).stream().sorted().toList(), entries(parent));
    Awaitility.await()
        .until(
            () -> {
              AbandonedImage.removeIn(parent, Duration.ofMillis(20));
              return entries(parent).isEmpty();
            });
  }

  @Test
  void aLeaseIsRenewed_andEndsWhenThatStops(@TempDir Path parent) throws IOException {
    Path written = elsewhere(parent);
    Duration minute = Duration.ofMinutes(1);
    try (PinnedDirectory pinned = PinnedDirectory.open(written);
        StagingLease lease = StagingLease.of(pinned, Duration.ofMillis(1))) {
      for (int renewal = 1; renewal <= 3; renewal++) {
        FileTime before = StagingLease.changed(written);
        Awaitility.await().until(() -> StagingLease.changed(written).compareTo(before) > 0);
      }
      assertFalse(StagingLease.hasEnded(parent, written, minute));
      lease.close();
    }
    Awaitility.await().until(() -> StagingLease.hasEnded(parent, written, Duration.ofMillis(20)));
    assertEquals(List.of(written), entries(parent), "nothing else is left there");
  }

  @Test
  void aStagedImageHasALease_untilItIsPublished(@TempDir Path parent) throws IOException {
    Set<String> before = leases(parent);
    assertEquals(Set.of(), before);
    try (StagedImage staged =
        StagedImage.create(parent.resolve("job"), TestImages.PROCESS, 0, null)) {
      TestImages.fill(staged.images(), new Random(1));
      assertEquals(1, leases(parent).size());
    }
    Awaitility.await().until(() -> leases(parent).isEmpty());
  }

  /** The staging directory gets the last file number, and its directory for CRIU none. */
  @Test
  @RequiresRoot("mounts a file system")
  void anImageThatCannotBeBegunHasNoLease(@TempDir Path directory) throws Exception {
    try (Mount mount = Mount.tmpfs(directory.resolve("few"), "1m,nr_inodes=2")) {
      Path parent = mount.path();
      assertThrows(
          ImageException.class,
          () -> StagedImage.create(parent.resolve("job"), TestImages.PROCESS, 0, null).close());
      assertEquals(List.of(), AbandonedImage.in(parent));
      Awaitility.await().until(() -> leases(parent).isEmpty());
    }
  }

  /**
   * The lease of a maker elsewhere is compared with the time of a new file, which needs a number.
   */
  @Test
  @RequiresRoot("mounts a file system")
  void oneThatCannotBeJudgedOrRemovedKeepsNoOther(@TempDir Path directory) throws Exception {
    try (Mount mount = Mount.tmpfs(directory.resolve("few"), "1m,nr_inodes=4")) {
      Path unjudged = elsewhere(mount.path());
      Path unremoved = Files.createDirectory(mount.path().resolve(abandoned().text()));
      Path dead = Files.createDirectory(mount.path().resolve(abandoned().text()));
      try (Mount mounted = Mount.tmpfs(unremoved, "1m")) {
        AbandonedImage.removeIn(mount.path());
        assertEquals(List.of(unjudged, mounted.path()), entries(mount.path()));
      }
      assertFalse(Files.exists(dead));
      AbandonedImage.removeIn(mount.path());
      assertEquals(List.of(unjudged), entries(mount.path()));
    }
  }

  private static Set<String> leases(Path parent) {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith("gpuprocess lease of " + parent))
        .collect(Collectors.toSet());
  }

  @Test
  @RequiresRoot("gives files away")
  void othersCannotHaveTheirDirectoriesRemoved(@TempDir Path parent) throws IOException {
    Path theirs = Files.createDirectory(parent.resolve(abandoned().text()));
    Files.setAttribute(theirs, "unix:uid", 12345);
    Path target = Files.createDirectory(parent.resolve("target"));
    Files.createSymbolicLink(parent.resolve(abandoned().text()), target);
    Files.createFile(parent.resolve(abandoned().text()));
    assertEquals(List.of(), AbandonedImage.in(parent));
    assertTrue(Files.exists(theirs));
  }

  @Test
  void aDirectoryThatDoesNotExistHasNone(@TempDir Path parent) {
    assertEquals(List.of(), AbandonedImage.in(parent.resolve("missing")));
  }

  @Test
  void namesAreReadBack() throws IOException {
    StagingName name = StagingName.of(TestImages.PROCESS);
    assertEquals(Optional.of(name), StagingName.parse(name.text()));
    assertFalse(name.maker().hasEnded());
    assertTrue(name.maker().isOfThisBoot());
    String large = name.text().replace("-4242-", "-9999999999-");
    assertEquals(Optional.empty(), StagingName.parse(large));
    assertEquals(Optional.empty(), StagingName.parse("x" + name.text()));
  }
}
