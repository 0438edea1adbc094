package dev.gpuprocess.internal.launch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HexFormat;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A file in an image whose path and content the process has chosen. */
class CarriedNativeFileTest {

  private static final byte[] CONTENT = "not of this library".getBytes(StandardCharsets.US_ASCII);
  private static final String NAME = "gpuprocess-job-" + NativeFile.sum(CONTENT);

  @TempDir Path directory;

  private static Optional<CarriedNativeFile> carried(Path path) {
    HexFormat hex = HexFormat.of();
    return CarriedNativeFile.parse(
        "library %s %s"
            .formatted(
                hex.formatHex(path.toString().getBytes(StandardCharsets.UTF_8)),
                hex.formatHex(CONTENT)));
  }

  @Test
  void isOnlyInDirectoriesThatThisLibraryNames() {
    assertEquals(Optional.empty(), carried(directory.resolve(NAME)));
    assertEquals(Optional.empty(), carried(directory.resolve("gpuprocess-native-/").resolve(NAME)));
  }

  @Test
  void makesNoDirectoryForTheContentOfAProcess() {
    Path place = directory.resolve("gpuprocess-native-tenant");
    CarriedNativeFile file = carried(place.resolve(NAME)).orElseThrow();
    assertThrows(IOException.class, file::putBack);
    assertFalse(Files.exists(place));
  }

  @Test
  void anEarlierVersionIsInstalledWhereOnesWere() throws IOException {
    Path place =
        Files.createDirectories(
            directory.resolve(".cache/gpuprocess/native"),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    carried(place.resolve(NAME)).orElseThrow().putBack();
    assertArrayEquals(CONTENT, Files.readAllBytes(place.resolve(NAME)));
  }
}
