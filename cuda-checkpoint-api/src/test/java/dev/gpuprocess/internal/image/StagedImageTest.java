package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.ErrorText;
import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.StagingName;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class StagedImageTest {

  private Path root;
  private Path parent;
  private Path target;

  @BeforeEach
  void makeParent(@TempDir Path directory) throws IOException {
    root = directory;
    parent = Files.createDirectory(root.resolve("images"));
    target = parent.resolve("job-42");
  }

  private StagedImage create(Path directory) {
    return StagedImage.create(directory, TestImages.PROCESS, 0, null);
  }

  private static String mode(Path file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
  }

  private static List<Path> entries(Path directory) throws IOException {
    try (Stream<Path> entries = Files.list(directory)) {
      return entries.sorted().toList();
    }
  }

  @Test
  void publishGivesTheNameToACompleteImage() throws IOException {
    ImageDirectory image;
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      assertFalse(Files.exists(target), "nothing has the name before it is complete");
      assertEquals(1, entries(parent).size(), "it grows beside its place");
      image = staged.publish(TestImages::manifest);
      assertEquals(List.of(target), entries(parent));
    }
    assertEquals(List.of(target), entries(parent));
    assertEquals(target, image.path());
    ImageDirectory opened = ImageDirectory.open(target);
    assertEquals(image.manifest(), opened.manifest());
    opened.verify();
  }

  @Test
  void everythingInAnImageIsPrivate() throws IOException {
    try (StagedImage staged = create(target)) {
      assertEquals("rwx------", mode(staged.images()));
      Files.createFile(
          staged.images().resolve("core-1.img"),
          PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-r--r--")));
      staged.publish(TestImages::manifest);
    }
    assertEquals("rwx------", mode(target));
    assertEquals("rwx------", mode(target.resolve("criu")));
    assertEquals("rw-------", mode(target.resolve("criu/core-1.img")));
    assertEquals("rw-------", mode(target.resolve(ManifestFile.NAME)));
    assertEquals("rw-------", mode(target.resolve(ManifestFile.SUM_NAME)));
  }

  @ParameterizedTest
  @ValueSource(strings = {"0000", "0077"})
  void theUmaskChangesNothing(String umask) throws Exception {
    OtherJvm.withUmask(umask, "publish", target.toString()).waitForSuccess();
    try (Stream<Path> all = Files.walk(target)) {
      for (Path each : all.toList()) {
        assertEquals(Files.isDirectory(each) ? "rwx------" : "rw-------", mode(each), "" + each);
      }
    }
    ImageDirectory.open(target).verify();
  }

  @Test
  @RequiresRoot("opens what that umask makes")
  void theUmaskThatForbidsEverythingChangesNothing() throws Exception {
    theUmaskChangesNothing("0777");
  }

  @Test
  void anEmptyDirectoryIsReplaced() throws IOException {
    Files.createDirectory(target);
    TestImages.publish(target, null).verify();
    assertEquals("rwx------", mode(target));
  }

  @Test
  void closingLeavesNothing() throws IOException {
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
    }
    assertEquals(List.of(), entries(parent));
  }

  @Test
  void retractingLeavesNothing() throws IOException {
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      staged.publish(TestImages::manifest);
      staged.retractWhenClosed();
    }
    assertEquals(List.of(), entries(parent));
  }

  /**
   * An operator may move an image as soon as it has its name, and the next image may get that name.
   */
  @OutsideUse("A1")
  @Test
  void retractingRemovesNoOtherImage() throws IOException {
    Path elsewhere = parent.resolve("elsewhere");
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      staged.publish(TestImages::manifest);
      Files.move(target, elsewhere);
      try (StagedImage other = create(target)) {
        TestImages.fill(other.images(), new Random(8));
        other.publish(TestImages::manifest);
      }
      staged.retractWhenClosed();
    }
    ImageDirectory.open(target).verify();
    ImageDirectory.open(elsewhere).verify();
  }

  @Test
  void theLogOutlivesAFailureAndNotASuccess() throws IOException {
    Path failed;
    Path good;
    Path unused;
    try (StagedImage staged = create(target)) {
      failed = staged.work();
      Files.createFile(failed.resolve("dump.log"));
    }
    try (StagedImage staged = create(target)) {
      unused = staged.work();
    }
    try (StagedImage staged = create(target)) {
      good = staged.work();
      Files.createFile(good.resolve("dump.log"));
      TestImages.fill(staged.images(), new Random(7));
      staged.publish(TestImages::manifest);
      assertTrue(Files.exists(good), "statistics come after the image");
      staged.logUnwanted();
    }
    assertTrue(Files.exists(failed.resolve("dump.log")), "the exception names it");
    assertFalse(Files.exists(unused));
    assertFalse(Files.exists(good));
    DurableFiles.delete(failed);
  }

  private void refused(Path directory, String reason) throws IOException {
    List<Path> before = entries(root);
    List<Path> beside = Files.isDirectory(parent) ? entries(parent) : List.of();
    ImageException e =
        assertReason(
            ImageException.class, ImageException.Reason.DIRECTORY, () -> create(directory).close());
    TestImages.says(e, reason);
    TestImages.saysNot(e, "/proc/self");
    assertEquals(before, entries(root));
    assertEquals(beside, Files.isDirectory(parent) ? entries(parent) : List.of());
  }

  @Test
  @OutsideUse("B3")
  void makesAMissingParent() {
    create(root.resolve("missing/above/job")).close();
    assertTrue(Files.isDirectory(root.resolve("missing/above")));
  }

  @Test
  void refusesTheRootOfAllDirectories() throws IOException {
    refused(Path.of("/"), "is not a name for an image");
  }

  @Test
  void refusesAParentThatIsAFile() throws IOException {
    Files.createFile(root.resolve("file"));
    refused(root.resolve("file/job"), "file is not a directory");
    refused(root.resolve("file/above/job"), "file is not a directory");
  }

  @Test
  @OutsideUse("A21")
  void aPathMeansWhatTheKernelMakesOfIt() throws IOException {
    Path other = Files.createDirectories(root.resolve("other/deep"));
    Path link = Files.createSymbolicLink(root.resolve("link"), other);
    assertEquals(root.toRealPath().resolve("other/job"), ImagePlace.of(link.resolve("../job")));
    assertEquals(other.toRealPath(), ImagePlace.of(link.resolve(".")));
    assertEquals(root.toRealPath().resolve("other"), ImagePlace.of(other.resolve("..")));
    assertEquals(
        root.toRealPath().resolve("link"), ImagePlace.of(link), "the name itself is not followed");
  }

  @Test
  @OutsideUse("A21")
  void whatADeadMakerLeftBesideIsRemoved() throws IOException {
    DirectoryMaker dead = TestImages.deadMaker();
    Path left =
        Files.createDirectories(parent.resolve(new StagingName(dead, TestImages.PROCESS).text()));
    DirectoryMaker stranger = new DirectoryMaker("00000000", dead.namespace(), dead.process());
    Path elsewhere =
        Files.createDirectories(
            parent.resolve(new StagingName(stranger, TestImages.PROCESS).text()));
    create(target).close();
    assertFalse(Files.exists(left));
    assertTrue(Files.exists(elsewhere), "of another machine that has the directory too");
  }

  /** The process would be killed for an image that no restore accepts. */
  @Test
  void refusesAMemoryFileThatIsNotOfTheImage() throws IOException {
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(1));
      DurableFiles.write(staged.makeMemoryDirectory().resolve("memory-1.bin"), new byte[1]);
      ImageException e =
          assertThrows(ImageException.class, () -> staged.publish(TestImages::manifest).verify());
      assertTrue(e.getMessage().contains("memory-1.bin: does not belong"), e.getMessage());
      ChecksummedFile file =
          new ChecksummedFile("gpu/memory-1.bin", 1, staged.checksum(), List.of("00000000"));
      staged.addMemory(file);
      staged.removeMemory(List.of(file));
      staged.publish(TestImages::manifest).verify();
    }
  }

  @Test
  void refusesADirectoryThatIsNotEmpty() throws IOException {
    Files.createDirectory(target);
    Files.createFile(target.resolve("something"));
    refused(target, "is not empty");
  }

  @Test
  void refusesAFile() throws IOException {
    Files.createFile(target);
    refused(target, "is not a directory");
  }

  @Test
  void refusesALink() throws IOException {
    Path elsewhere = Files.createDirectory(root.resolve("elsewhere"));
    Files.createSymbolicLink(target, elsewhere);
    refused(target, "is not a directory");
  }

  @Test
  void refusesALinkToNothing() throws IOException {
    Files.createSymbolicLink(target, root.resolve("nothing"));
    refused(target, "is not a directory");
  }

  @Test
  void refusesAReadOnlyFileSystem() throws Exception {
    try (Mount mount = Mount.tmpfs(parent, "1m")) {
      mount.makeReadOnly();
      refused(target, ErrorText.EROFS);
    }
  }

  @Test
  void refusesAMountPoint() throws Exception {
    try (Mount mount = Mount.tmpfs(target, "1m")) {
      refused(mount.path(), "mounted");
    }
  }

  @Test
  void followsLinksToTheParent() throws IOException {
    Path link = Files.createSymbolicLink(root.resolve("link"), parent);
    TestImages.publish(link.resolve("job-42"), null).verify();
    assertEquals(List.of(target), entries(parent));
  }

  @Test
  void refusesAFileSystemWithoutRoomBeforeAnythingIsWritten() throws Exception {
    try (Mount mount = Mount.tmpfs(parent, "1m")) {
      ImageException e =
          assertReason(
              ImageException.class,
              ImageException.Reason.DISK_FULL,
              () -> StagedImage.create(target, TestImages.PROCESS, 2 << 20, null).close());
      TestImages.says(e, "needs about 2 MiB");
      assertEquals(List.of(), entries(mount.path()));
    }
  }

  @Test
  void aFileSystemThatFillsUpIsNoticedAndLeftAsItWas() throws Exception {
    try (Mount mount = Mount.tmpfs(parent, "1m")) {
      FileStore store = Files.getFileStore(mount.path());
      Path rest = mount.path().resolve("rest");
      try (StagedImage staged = create(target)) {
        TestImages.fill(staged.images(), new Random(7));
        Files.write(rest, new byte[Math.toIntExact(store.getUsableSpace())]);
        ImageException e =
            assertReason(
                ImageException.class,
                ImageException.Reason.DISK_FULL,
                () -> staged.publish(TestImages::manifest).verify());
        TestImages.says(e, target.toString());
        TestImages.says(e, ErrorText.ENOSPC);
        TestImages.saysNot(e, "/proc/self");
      }
      assertEquals(List.of(rest), entries(mount.path()));
    }
  }

  @Test
  void aFileSystemThatBecomesReadOnlyIsNoticed() throws Exception {
    try (Mount mount = Mount.tmpfs(parent, "4m")) {
      try (StagedImage staged = create(target)) {
        TestImages.fill(staged.images(), new Random(7));
        mount.makeReadOnly();
        ImageException e =
            assertThrows(ImageException.class, () -> staged.publish(TestImages::manifest).verify());
        TestImages.says(e, ErrorText.EROFS);
      }
      assertFalse(Files.exists(target));
    }
  }

  @Test
  void aNameThatWasTakenMeanwhileIsNotReplaced() throws IOException {
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      ImageDirectory other = TestImages.publish(target, null);
      assertThrows(ImageException.class, () -> staged.publish(TestImages::manifest).verify());
      other.verify();
    }
    assertEquals(List.of(target), entries(parent));
    ImageDirectory.open(target).verify();
  }

  @Test
  void anImageWithoutItsMemoryIsNotPublished() throws IOException {
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      Path pages = staged.images().resolve("pages-1.img");
      byte[] whole = Files.readAllBytes(pages);
      Files.write(pages, java.util.Arrays.copyOf(whole, whole.length - 1));
      ImageException e =
          assertReason(
              ImageException.class,
              ImageException.Reason.CORRUPT,
              () -> staged.publish(TestImages::manifest).verify());
      TestImages.says(e, "pages-1.img");
      assertEquals(TestImages.PROCESS.pid(), e.failure().pid());
    }
    assertEquals(List.of(), entries(parent));
  }

  @ParameterizedTest
  @ValueSource(strings = {"directory", "link", "odd name"})
  void whatCriuDoesNotWriteIsNotPublished(String kind) throws IOException {
    try (StagedImage staged = create(target)) {
      Files.createFile(staged.images().resolve("core-1.img"));
      Path odd = staged.images().resolve("odd.img");
      switch (kind) {
        case "directory" -> Files.createDirectory(odd);
        case "link" -> Files.createSymbolicLink(odd, Path.of("/etc/passwd"));
        default -> Files.createFile(staged.images().resolve("odd name"));
      }
      String before = mode(Path.of("/etc/passwd"));
      ImageException e =
          assertThrows(ImageException.class, () -> staged.publish(TestImages::manifest).verify());
      TestImages.says(e, "odd");
      assertEquals(before, mode(Path.of("/etc/passwd")));
    }
    assertEquals(List.of(), entries(parent));
  }

  @Test
  void anExceptionOfTheManifestComesThrough() throws IOException {
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      assertThrows(
          GpuCheckpointException.class,
          () ->
              staged.publish(
                  files -> {
                    throw new ImageException(
                        ImageException.Reason.UNWRITABLE,
                        "no",
                        dev.gpuprocess.error.Failure.of("test", 0));
                  }));
    }
    assertEquals(List.of(), entries(parent));
  }

  /** The process would be killed for an image that cannot be opened. */
  @Test
  void aManifestThatCannotBeReadBackIsNotPublished() throws IOException {
    String large = "x".repeat(ManifestFile.MAX_BYTES);
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      ImageException e =
          assertThrows(
              ImageException.class,
              () -> staged.publish(files -> withCommandLine(files, large)).verify());
      TestImages.says(e, "is too large");
    }
    assertEquals(List.of(), entries(parent));
  }

  private static ManifestData withCommandLine(List<ChecksummedFile> files, String argument) {
    ManifestData usual = TestImages.manifest(files);
    return new ManifestData(
        usual.formatVersion(),
        usual.created(),
        usual.pid(),
        usual.startTicks(),
        List.of(argument),
        usual.gpuBytes(),
        usual.cudaVersion(),
        usual.driverVersion(),
        usual.criuVersion(),
        usual.kernel(),
        usual.options(),
        null,
        files,
        null,
        null,
        null,
        null,
        null,
        null);
  }

  /** An interrupt comes from the caller, and is not a fault of the disk. */
  @Test
  @OutsideUse("B2")
  void anInterruptedThreadPublishes() {
    try (StagedImage staged = create(target)) {
      TestImages.fill(staged.images(), new Random(7));
      Thread.currentThread().interrupt();
      staged.publish(TestImages::manifest).verify();
      staged.logUnwanted();
    } finally {
      assertTrue(Thread.interrupted(), "the flag stays");
    }
    ImageDirectory.open(target).verify();
  }

  /** A user with write access to the parent redirects the path to another directory. */
  @Test
  void aDirectoryThatIsSwappedWhileTheImageGrowsIsNotFollowed() throws IOException {
    Path victim = Files.createDirectory(root.resolve("victim"));
    Path precious = Files.createFile(Files.createDirectory(victim.resolve("criu")).resolve("x"));
    Files.setPosixFilePermissions(precious, PosixFilePermissions.fromString("rwxr-xr-x"));
    Path aside = parent.resolve("aside");
    try (StagedImage staged = create(target)) {
      Path growing = entries(parent).get(0);
      Files.move(growing, aside);
      Files.createSymbolicLink(growing, victim);
      TestImages.fill(staged.images(), new Random(7));
      ImageException e =
          assertThrows(ImageException.class, () -> staged.publish(TestImages::manifest).verify());
      TestImages.says(e, "was replaced");
    }
    assertEquals(List.of(victim.resolve("criu")), entries(victim));
    assertEquals(List.of(precious), entries(victim.resolve("criu")));
    assertEquals("rwxr-xr-x", mode(precious));
    assertEquals(List.of(), entries(aside), "what we wrote is removed, wherever it is");
  }

  @Test
  void anImageWithAKeyIsSigned() throws IOException {
    ImageKey key = TestImages.key(root.resolve("key"), 1);
    ImageDirectory image = TestImages.publish(target, key);
    assertEquals("rw-------", mode(target.resolve(ManifestFile.CODE_NAME)));
    assertTrue(
        image.manifest().files().stream().allMatch(file -> file.checksum() == Checksum.SHA256));
    ImageDirectory.open(target, key).verify();
    ImageDirectory.open(target).verify();
  }

  @Test
  void identityNamesTheProcess() {
    ProcessIdentity process = new ProcessIdentity(77, 5);
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.DISK_FULL,
            () -> StagedImage.create(target, process, Long.MAX_VALUE, null).close());
    assertEquals(77, e.failure().pid());
    assertNull(e.failure().cudaResult());
  }
}
