package dev.gpuprocess.examples.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.gpuprocess.contract.RequiresRoot;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which files an agent accepts for its token and its key. */
class SecretFileTest {

  @TempDir private Path directory;
  private Path file;

  @BeforeEach
  void write() throws IOException {
    file = Files.writeString(directory.resolve("token"), "0123456789abcdef");
    permit("r--------");
  }

  private void permit(String permissions) throws IOException {
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
  }

  private String refusal() {
    return String.valueOf(
        assertThrows(IOException.class, () -> SecretFile.check(file)).getMessage());
  }

  /** A volume of Kubernetes has links to links to the files. */
  @Test
  void followsLinks() throws IOException {
    Path data = Files.createDirectory(directory.resolve("..2026_11_25"));
    Path real = Files.move(file, data.resolve("token"));
    Files.createSymbolicLink(directory.resolve("..data"), data.getFileName());
    Files.createSymbolicLink(file, Path.of("..data/token"));
    assertEquals(real.toRealPath(), SecretFile.check(file));
    Files.setPosixFilePermissions(real, PosixFilePermissions.fromString("r--r-----"));
    String refusal = refusal();
    assertTrue(refusal.contains("chmod 0400 " + real.toRealPath()), refusal);
  }

  @ParameterizedTest
  @ValueSource(strings = {"rw-r-----", "rw--w----", "rw----r--", "rw-----w-", "rw-r--r--"})
  void refusesAFileThatOthersCanUse(String permissions) throws IOException {
    permit(permissions);
    String refusal = refusal();
    assertTrue(refusal.contains(permissions) && refusal.contains("chmod 0400"), refusal);
    permit("rw-------");
    assertEquals(file.toRealPath(), SecretFile.check(file));
  }

  @Test
  @RequiresRoot("changes the owner of a file")
  void refusesAFileOfAnotherUser() throws IOException {
    Files.setAttribute(file, "unix:uid", 12_345);
    String refusal = refusal();
    assertTrue(refusal.contains("12345") && refusal.contains("chown 0"), refusal);
  }

  @Test
  void refusesAMissingFile() throws IOException {
    Files.delete(file);
    assertThrows(NoSuchFileException.class, () -> SecretFile.check(file));
  }
}
