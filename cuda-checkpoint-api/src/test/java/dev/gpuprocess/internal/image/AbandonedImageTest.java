package dev.gpuprocess.internal.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Stream;
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
