package dev.gpuprocess.internal.image;

import static dev.gpuprocess.contract.AssertReason.assertReason;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.OutsideUse;
import dev.gpuprocess.contract.RequiresRoot;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.error.OperationCancelledException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.time.WorkLimit;
import dev.gpuprocess.options.Cancellation;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("jdk")
@Tag("slow")
class ImageDirectoryTest {

  private static final int SOMEBODY = 12345;

  private Path root;
  private Path image;
  private Path pages;

  @BeforeEach
  void makeImage(@TempDir Path directory) {
    root = directory;
    image = root.resolve("job-42");
    TestImages.publish(image, null);
    pages = image.resolve("criu/pages-1.img");
  }

  private ImageException refused(ImageException.Reason reason, String... parts) {
    ImageException e =
        assertReason(ImageException.class, reason, () -> ImageDirectory.open(image).verify());
    for (String part : parts) {
      TestImages.says(e, part);
    }
    TestImages.says(e, image.toString());
    TestImages.saysNot(e, "/proc/self");
    return e;
  }

  private static void owner(Path file, int uid) throws IOException {
    Files.setAttribute(file, "unix:uid", uid, java.nio.file.LinkOption.NOFOLLOW_LINKS);
  }

  private static void mode(Path file, String mode) throws IOException {
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
  }

  @Test
  void aGoodImageIsGood() {
    ImageDirectory opened = ImageDirectory.open(image);
    opened.verify();
    opened.verify();
    assertEquals(
        List.of("/usr/bin/python3", "train.py", "--name=Zoë \"<&>\""),
        opened.manifest().commandLine());
  }

  @Test
  void thereIsNoImage() throws IOException {
    DurableFiles.delete(image);
    refused(ImageException.Reason.MISSING, "is not a directory");
    Files.createFile(image);
    refused(ImageException.Reason.MISSING, "is not a directory");
  }

  @Test
  void anImageThatGoesAwayIsMissing() throws IOException {
    ImageDirectory opened = ImageDirectory.open(image);
    DurableFiles.delete(image);
    assertReason(ImageException.class, ImageException.Reason.MISSING, opened::verify);
  }

  @Test
  void theManifestIsMissing() throws IOException {
    Files.delete(image.resolve(ManifestFile.NAME));
    refused(ImageException.Reason.MISSING, "has no manifest.json");
  }

  @Test
  void theSumOfTheManifestIsMissing() throws IOException {
    Files.delete(image.resolve(ManifestFile.SUM_NAME));
    refused(ImageException.Reason.CORRUPT, "manifest.sha256 does not exist");
  }

  @Test
  void theManifestWasAltered() throws IOException {
    Path manifest = image.resolve(ManifestFile.NAME);
    Files.writeString(manifest, Files.readString(manifest).replace("4242,", "4243,"));
    refused(ImageException.Reason.CORRUPT, "does not match manifest.sha256");
  }

  @Test
  void anotherVersionWroteIt() throws IOException {
    String text = Files.readString(image.resolve(ManifestFile.NAME));
    String later = text.replace("\"formatVersion\": 1,", "\"formatVersion\": 5,\n  \"new\": {},");
    TestImages.forge(image, later.getBytes(StandardCharsets.UTF_8));
    refused(ImageException.Reason.FORMAT, "has format 5 and this version reads formats 1 to 4");
  }

  @Test
  void theDirectoryOfTheFilesIsMissing() throws IOException {
    DurableFiles.delete(image.resolve("criu"));
    refused(ImageException.Reason.CORRUPT, "criu is missing");
  }

  @Test
  void aFileIsMissing() throws IOException {
    Files.delete(image.resolve("criu/core-4242.img"));
    refused(ImageException.Reason.CORRUPT, "lacks [criu/core-4242.img]");
  }

  @Test
  void thereIsAnExtraFile() throws IOException {
    Files.createFile(image.resolve("criu/core-1.img"));
    refused(ImageException.Reason.CORRUPT, "criu/core-1.img is not in the manifest");
  }

  @Test
  void aFileWasTruncated() throws IOException {
    byte[] whole = Files.readAllBytes(pages);
    Files.write(pages, Arrays.copyOf(whole, whole.length - 1));
    refused(
        ImageException.Reason.CORRUPT,
        "pages-1.img has %d bytes instead of %d".formatted(whole.length - 1, whole.length));
  }

  @Test
  void aBitWasFlipped() throws IOException {
    byte[] content = Files.readAllBytes(pages);
    content[content.length / 2] ^= 1;
    Files.write(pages, content);
    refused(ImageException.Reason.CORRUPT, "pages-1.img has different content");
  }

  /** A file of several chunks with holes, so it needs no space. */
  @Test
  void aBitWasFlippedFarInALargeFile() throws IOException {
    Path large = image.resolve("criu/ghost-file-9.img");
    long bytes = 2 * ChecksummedFile.CHUNK_BYTES + 17;
    try (RandomAccessFile file = new RandomAccessFile(large.toFile(), "rw")) {
      file.setLength(bytes);
    }
    mode(large, "rw-------");
    List<ChecksummedFile> files = new ArrayList<>(TestImages.sum(image, Checksum.CRC32C));
    ChecksummedFile summed =
        files.stream().filter(file -> file.bytes() == bytes).findFirst().orElseThrow();
    assertEquals(3, summed.chunks().size());
    assertEquals(summed.chunks().get(0), summed.chunks().get(1));
    TestImages.forge(image, ManifestFile.write(TestImages.manifest(files)));
    ImageDirectory.open(image).verify();
    for (long at :
        List.of(0L, ChecksummedFile.CHUNK_BYTES - 1, ChecksummedFile.CHUNK_BYTES, bytes - 1)) {
      flip(large, at);
      refused(ImageException.Reason.CORRUPT, "ghost-file-9.img has different content");
      flip(large, at);
    }
    ImageDirectory.open(image).verify();
  }

  private static void flip(Path file, long at) throws IOException {
    try (RandomAccessFile content = new RandomAccessFile(file.toFile(), "rw")) {
      content.seek(at);
      int before = content.read();
      content.seek(at);
      content.write(before ^ 0x80);
    }
  }

  @Test
  void aManifestThatAgreesWithATruncatedMemoryImageIsNotEnough() throws IOException {
    byte[] whole = Files.readAllBytes(pages);
    Files.write(pages, Arrays.copyOf(whole, whole.length - 4096));
    List<ChecksummedFile> files = TestImages.sum(image, Checksum.CRC32C);
    TestImages.forge(image, ManifestFile.write(TestImages.manifest(files)));
    refused(ImageException.Reason.CORRUPT, "pagemap-4242.img needs", "pages-1.img, which has");
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "criu", "criu/pages-1.img", "manifest.json", "manifest.sha256"})
  @RequiresRoot("gives files away")
  void somebodyElseOwnsIt(String name) throws IOException {
    owner(image.resolve(name), SOMEBODY);
    refused(ImageException.Reason.NOT_TRUSTED, "uid 12345");
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "criu", "criu/pages-1.img", "manifest.json", "manifest.sha256"})
  void othersCanWriteToIt(String name) throws IOException {
    for (String mode : List.of("rwx-w----", "rwx----w-", "rwxrwxrwx")) {
      mode(image.resolve(name), mode);
      refused(ImageException.Reason.NOT_TRUSTED, "mode 07");
    }
  }

  @Test
  void othersMayReadIt() throws IOException {
    mode(image, "rwxr-xr-x");
    mode(image.resolve("criu"), "rwxr-xr-x");
    mode(pages, "rw-r--r--");
    ImageDirectory.open(image).verify();
  }

  @ParameterizedTest
  @ValueSource(strings = {"criu/pages-1.img", "criu", "manifest.json", "manifest.sha256"})
  void aLinkTakesItsPlace(String name) throws IOException {
    Path moved = root.resolve("moved");
    Files.move(image.resolve(name), moved);
    Files.createSymbolicLink(image.resolve(name), moved);
    ImageException e =
        assertThrows(ImageException.class, () -> ImageDirectory.open(image).verify());
    TestImages.says(e, name);
  }

  @Test
  void aLinkToAnImageIsNoImage() throws IOException {
    Path moved = root.resolve("moved");
    Files.move(image, moved);
    Files.createSymbolicLink(image, moved);
    refused(ImageException.Reason.MISSING, "is a link to");
    ImageDirectory.open(moved).verify();
  }

  @Test
  void anImageMayBeMovedAndCopied() throws IOException {
    Path moved = root.resolve("moved");
    Files.move(image, moved);
    ImageDirectory.open(moved).verify();
  }

  @Test
  void linksAboveTheImageAreFollowed() throws IOException {
    Path link = Files.createSymbolicLink(root.resolve("link"), root);
    ImageDirectory.open(link.resolve("job-42")).verify();
  }

  /** A restore reads the verified files, even if directories above are renamed. */
  @Test
  void aDirectoryThatIsSwappedAfterTheCheckIsNotRead() throws IOException {
    byte[] verified = Files.readAllBytes(pages);
    try (VerifiedImage held = ImageDirectory.open(image).verified()) {
      Files.move(image, root.resolve("aside"));
      Files.createDirectories(pages.getParent());
      Files.write(pages, new byte[] {1, 2, 3});
      assertArrayEquals(verified, Files.readAllBytes(held.images().resolve("pages-1.img")));
    }
  }

  @Test
  void anotherImageThatTakesThePlaceOfTheOpenedOneIsNotIt() throws IOException {
    ImageDirectory opened = ImageDirectory.open(image);
    Files.move(image, root.resolve("aside"));
    TestImages.publish(image, null);
    byte[] content = Files.readAllBytes(pages);
    content[0] ^= 1;
    Files.write(pages, content);
    List<ChecksummedFile> files = TestImages.sum(image, Checksum.CRC32C);
    TestImages.forge(image, ManifestFile.write(TestImages.manifest(files)));
    ImageDirectory.open(image).verify();
    assertReason(ImageException.class, ImageException.Reason.CORRUPT, opened::verify);
  }

  @Test
  void verifyingLeavesNoDescriptors() throws IOException {
    ImageDirectory opened = ImageDirectory.open(image);
    opened.verify();
    byte[] whole = Files.readAllBytes(pages);
    long before = descriptorsIn(image);
    for (int i = 0; i < 20; i++) {
      opened.verify();
    }
    Files.write(pages, Arrays.copyOf(whole, 5));
    for (int i = 0; i < 20; i++) {
      assertReason(ImageException.class, ImageException.Reason.CORRUPT, opened::verify);
    }
    assertEquals(0, before);
    assertEquals(0, descriptorsIn(image));
  }

  private static long descriptorsIn(Path directory) {
    return dev.gpuprocess.internal.proc.ProcFs.openFiles(ProcessHandle.current().pid()).stream()
        .filter(file -> file.target().startsWith(directory.toString()))
        .count();
  }

  /** The first JVM has direct memory for some reads and never frees it, the second has none. */
  @ParameterizedTest
  @ValueSource(strings = {"1m", "16k"})
  @OutsideUse("A22")
  void littleDirectMemoryIsEnough(String limit) throws IOException, InterruptedException {
    Path target = root.resolve("made with little");
    List<String> flags =
        List.of("-XX:+DisableExplicitGC", "-XX:MaxDirectMemorySize=" + limit, "-Xmn64m");
    try (OtherJvm maker = OtherJvm.withFlags(flags, "publish", target.toString())) {
      maker.waitForSuccess();
    }
    try (OtherJvm reader = OtherJvm.withFlags(flags, "verify", target.toString(), "20")) {
      reader.waitForSuccess();
    }
  }

  /** A read that exceeds its limit stops, and leaves no thread running. */
  @Test
  @OutsideUse("D5")
  void readingEndsWithItsTimeOrItsCancellation() throws IOException {
    Path sparse = image.resolve("criu/ghost-file-9.img");
    // One checksum for all chunks; it is compared only when the first chunk is read.
    long bytes = 1L << 40;
    try (RandomAccessFile file = new RandomAccessFile(sparse.toFile(), "rw")) {
      file.setLength(bytes);
    }
    mode(sparse, "rw-------");
    List<ChecksummedFile> files = new ArrayList<>(ImageDirectory.open(image).manifest().files());
    files.add(
        new ChecksummedFile(
            "criu/ghost-file-9.img",
            bytes,
            Checksum.CRC32C,
            Collections.nCopies((int) ChecksummedFile.chunksOf(bytes), "00000000")));
    files.sort(Comparator.comparing(ChecksummedFile::path));
    TestImages.forge(image, ManifestFile.write(TestImages.manifest(files)));
    ImageDirectory opened = ImageDirectory.open(image);
    WorkLimit shortly = WorkLimit.reading("restore", 4242, Duration.ofMillis(50), () -> false);
    OperationTimedOutException late =
        assertThrows(OperationTimedOutException.class, () -> opened.verified(shortly));
    TestImages.says(late, "did not begin");
    Cancellation cancellation = new Cancellation();
    cancellation.cancel();
    WorkLimit unwanted =
        WorkLimit.reading(
            "restore", 4242, Duration.ofSeconds(Long.MAX_VALUE), cancellation::isCancelled);
    assertThrows(OperationCancelledException.class, () -> opened.verified(unwanted));
    // Threads end a moment after their executor.
    await()
        .atMost(10, SECONDS)
        .until(
            () ->
                Thread.getAllStackTraces().keySet().stream()
                    .noneMatch(thread -> thread.getName().equals("gpuprocess-sum")));
  }

  /** An interrupt comes from the caller, and is not a fault of the image. */
  @Test
  void anInterruptedThreadCanVerify() {
    Thread.currentThread().interrupt();
    ImageDirectory.open(image).verify();
    assertTrue(Thread.interrupted(), "the flag stays");
  }

  @Test
  void signedImagesNeedTheirKey() throws IOException {
    ImageKey key = TestImages.key(root.resolve("key"), 1);
    ImageKey other = TestImages.key(root.resolve("other"), 2);
    Path signed = root.resolve("signed");
    TestImages.publish(signed, key);
    ImageDirectory.open(signed, key).verify();
    assertReason(
        ImageException.class,
        ImageException.Reason.NOT_TRUSTED,
        () -> ImageDirectory.open(signed, other));
    assertReason(
        ImageException.class,
        ImageException.Reason.NOT_TRUSTED,
        () -> ImageDirectory.open(image, key));
    Path code = signed.resolve(ManifestFile.CODE_NAME);
    Files.copy(code, root.resolve("code"));
    Files.delete(code);
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.NOT_TRUSTED,
            () -> ImageDirectory.open(signed, key));
    TestImages.says(e, "has no manifest.hmac");
    Files.createDirectory(code);
    assertThrows(ImageException.class, () -> ImageDirectory.open(signed, key));
    Files.delete(code);
    Files.move(root.resolve("code"), code, StandardCopyOption.REPLACE_EXISTING);
    ImageDirectory.open(signed, key).verify();
  }

  /** Without the key a file can be altered so that its CRC matches, but not its SHA-256. */
  @Test
  void aForgedManifestIsNotTrusted() throws IOException {
    ImageKey key = TestImages.key(root.resolve("key"), 1);
    Path signed = root.resolve("signed");
    TestImages.publish(signed, key);
    Path file = signed.resolve("criu/core-4242.img");
    byte[] content = Files.readAllBytes(file);
    content[0] ^= 1;
    Files.write(file, content);
    assertReason(
        ImageException.class,
        ImageException.Reason.CORRUPT,
        () -> ImageDirectory.open(signed, key).verify());
    List<ChecksummedFile> files = TestImages.sum(signed, Checksum.SHA256);
    TestImages.forge(signed, ManifestFile.write(TestImages.manifest(files)));
    ImageDirectory.open(signed).verify();
    assertReason(
        ImageException.class,
        ImageException.Reason.NOT_TRUSTED,
        () -> ImageDirectory.open(signed, key).verify());
  }

  @Test
  void aSignatureOverWeakSumsIsNotEnough() throws IOException {
    ImageKey key = TestImages.key(root.resolve("key"), 1);
    byte[] manifest = Files.readAllBytes(image.resolve(ManifestFile.NAME));
    Path code = image.resolve(ManifestFile.CODE_NAME);
    Files.write(code, ManifestFile.code(manifest, key));
    ImageException e =
        assertReason(
            ImageException.class,
            ImageException.Reason.NOT_TRUSTED,
            () -> ImageDirectory.open(image, key));
    TestImages.says(e, "can be forged");
  }
}
