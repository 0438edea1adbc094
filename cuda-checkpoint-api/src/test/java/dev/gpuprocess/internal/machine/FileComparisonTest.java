package dev.gpuprocess.internal.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.PlainImage;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.MappedFile;
import dev.gpuprocess.internal.manifest.Checksum;
import dev.gpuprocess.internal.manifest.ChecksummedFile;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.options.RestoreOptions;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Libraries that an image needs: unchanged, missing, or replaced by another file. */
@Timeout(60)
class FileComparisonTest {

  private static final Instant THEN = Instant.parse("2026-11-21T10:15:30Z");
  private static final RestoreOptions DEFAULTS = RestoreOptions.ofDefaults();

  @TempDir Path directory;

  private static List<MachineDifference> differences(
      RestoreOptions options, List<MappedFile> files) {
    ImageMachine machine = new ImageMachine("amd64", "", List.of(), Map.of(), files);
    ManifestData manifest =
        PlainImage.manifest(
            new ProcessIdentity(4242, 1),
            List.of(new ChecksummedFile("criu/a.img", 0, Checksum.CRC32C, List.of())));
    return FileComparison.of(manifest, machine, options);
  }

  private static List<String> words(List<MachineDifference> differences) {
    return differences.stream().map(MachineDifference::toString).toList();
  }

  private void assertPrevents(MappedFile file, String text) {
    List<MachineDifference> found = differences(DEFAULTS, List.of(file));
    assertEquals(List.of(file.path() + ": " + text), words(found));
    assertTrue(found.get(0).prevents());
  }

  private String path(String name) {
    return directory.resolve(name).toString();
  }

  private static byte[] elf(int id) {
    ByteBuffer file = ByteBuffer.allocate(256).order(ByteOrder.LITTLE_ENDIAN);
    file.put(new byte[] {0x7f, 'E', 'L', 'F', 2, 1});
    file.putLong(32, 64).putShort(54, (short) 56).putShort(56, (short) 1);
    file.putInt(64, 4).putLong(64 + 8, 128).putLong(64 + 32, 20);
    file.position(128);
    file.putInt(4).putInt(4).putInt(3);
    file.put("GNU\0".getBytes(StandardCharsets.US_ASCII)).put((byte) id);
    return file.array();
  }

  @Test
  void theSameFileIsTheSame() throws IOException {
    Path library = Files.write(directory.resolve("lib\nZoe.so"), elf(7));
    Path data = Files.writeString(directory.resolve("data"), "text");
    Files.setLastModifiedTime(data, FileTime.from(THEN));
    List<MappedFile> files =
        List.of(
            new MappedFile(NativePath.text(library), 256, "07000000", null),
            new MappedFile(path("data"), 4, null, THEN));
    assertEquals(List.of(), differences(DEFAULTS, files));
  }

  @Test
  void anotherBuildOrSizePrevents() throws IOException {
    Path library = Files.write(directory.resolve("lib.so"), elf(8));
    MappedFile recorded = new MappedFile(path("lib.so"), 256, "07000000", null);
    assertPrevents(recorded, "build id 07000000 in the image, build id 08000000 here");
    RestoreOptions bySize =
        RestoreOptions.builder().criu(c -> c.set("file-validation=filesize")).build();
    assertEquals(
        List.of(false),
        differences(bySize, List.of(recorded)).stream().map(MachineDifference::prevents).toList());
    Files.write(library, new byte[256]);
    assertPrevents(recorded, "build id 07000000 in the image, no build id here");
    Files.write(library, Arrays.copyOf(elf(7), 257));
    assertPrevents(recorded, "256 bytes in the image, 257 bytes here");
  }

  @Test
  void anythingButAFilePreventsAndIsNotOpened() throws Exception {
    ProgramRun.of("mkfifo", path("fifo")).succeed();
    for (String other : List.of(path("fifo"), directory.toString(), "/dev/zero", "/dev/tty")) {
      assertPrevents(
          new MappedFile(other, 256, "07", null),
          "256 bytes in the image, not a regular file here");
    }
    for (String kernels : List.of("/proc/kmsg", "/proc/self/mem")) {
      if (Files.exists(Path.of(kernels))) {
        assertPrevents(
            new MappedFile(kernels, 256, "07", null), "256 bytes in the image, 0 bytes here");
      }
    }
    assertPrevents(
        new MappedFile(path("none"), 256, "07", null), "256 bytes in the image, missing here");
    Files.createSymbolicLink(directory.resolve("dangling"), Path.of("none"));
    assertPrevents(
        new MappedFile(path("dangling"), 256, "07", null), "256 bytes in the image, missing here");
  }

  @Test
  void unreadableFilesAreReportedAndPreventNothing() throws IOException {
    Files.createSymbolicLink(directory.resolve("loop"), Path.of("loop"));
    Files.writeString(directory.resolve("file"), "");
    for (String name : List.of("loop", "file/lib.so", "x".repeat(300))) {
      List<MachineDifference> found =
          differences(DEFAULTS, List.of(new MappedFile(path(name), 256, "07", null)));
      assertEquals(List.of(false), found.stream().map(MachineDifference::prevents).toList());
      assertTrue(found.get(0).here().startsWith("not known ("), found.get(0).here());
    }
  }

  /** CRIU does not compare times, and every installation of a package has other times. */
  @Test
  void otherTimesOfFilesWithoutBuildIdAreReportedInOneLine() throws IOException {
    Files.writeString(directory.resolve("a"), "text");
    Files.writeString(directory.resolve("b"), "text");
    List<MappedFile> files =
        List.of(new MappedFile(path("a"), 4, null, THEN), new MappedFile(path("b"), 4, null, THEN));
    List<MachineDifference> found = differences(DEFAULTS, files);
    assertEquals(
        List.of(
            path("a")
                + ": of 2026-11-21T10:15:30Z in the image, of another time, as are 1 more here"),
        words(found));
    assertEquals(List.of(false), found.stream().map(MachineDifference::prevents).toList());
  }

  @Test
  void belowAnotherRootNothingIsCompared() {
    List<MappedFile> files = List.of(new MappedFile(path("none"), 256, "07", null));
    RestoreOptions elsewhere = RestoreOptions.builder().criu(c -> c.root(directory)).build();
    assertEquals(List.of(), differences(elsewhere, files));
    RestoreOptions same = RestoreOptions.builder().criu(c -> c.root(Path.of("/"))).build();
    assertEquals(1, differences(same, files).size());
  }
}
