package dev.gpuprocess.internal.launch;

import dev.gpuprocess.internal.linux.DirectoryTrust;
import dev.gpuprocess.internal.text.NativePath;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Objects;
import java.util.Set;

/**
 * A compiled file of this jar, with a name that has a checksum of its content in it, in a directory
 * that no other user can enter. It stays when this JVM ends, as the processes do that use it, and
 * their images.
 *
 * @param path where it is, or will be
 * @param content what is in it
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record NativeFile(Path path, byte[] content) {

  private static final String RESOURCES = "/dev/gpuprocess/internal/native/linux-x86_64/";
  private static final int SUM_BYTES = 16;

  private static final Set<PosixFilePermission> EXECUTABLE =
      PosixFilePermissions.fromString("rwx------");
  private static final FileAttribute<Set<PosixFilePermission>> OURS_ALONE =
      PosixFilePermissions.asFileAttribute(EXECUTABLE);

  /** Where one with this content belongs that is called this, such as {@code job}. */
  static NativeFile of(Path directory, String name) throws IOException {
    byte[] content = resource(name);
    int dot = name.lastIndexOf('.');
    String stem = dot < 0 ? name : name.substring(0, dot);
    String suffix = dot < 0 ? "" : name.substring(dot);
    String file = "gpuprocess-%s-%s%s".formatted(stem, sum(content), suffix);
    return new NativeFile(directory.resolve(file), content);
  }

  private static byte[] resource(String name) throws IOException {
    if (!System.getProperty("os.arch").equals("amd64")) {
      throw new IOException("jobs can be launched on Linux on x86_64 only");
    }
    try (InputStream in = NativeFile.class.getResourceAsStream(RESOURCES + name)) {
      if (in == null) {
        throw new FileNotFoundException("this jar was built without " + RESOURCES + name);
      }
      return in.readAllBytes();
    }
  }

  /** The first half of its SHA-256. */
  static String sum(byte[] content) {
    try {
      byte[] whole = MessageDigest.getInstance("SHA-256").digest(content);
      return HexFormat.of().formatHex(whole, 0, SUM_BYTES);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }

  /**
   * Puts it there, complete or not at all, also when several JVMs do so at once. Does nothing when
   * it is there.
   */
  void install() throws IOException {
    Path directory = Objects.requireNonNull(path.getParent());
    makeDirectory(directory);
    if (isInstalled()) {
      return;
    }
    Path half = Files.createTempFile(directory, "half", "", OURS_ALONE);
    try {
      Files.write(half, content);
      Files.setPosixFilePermissions(half, EXECUTABLE);
      Files.move(half, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Files.deleteIfExists(half);
    }
  }

  private boolean isInstalled() throws IOException {
    return Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)
        && Arrays.equals(Files.readAllBytes(path), content)
        && Files.getPosixFilePermissions(path).equals(EXECUTABLE);
  }

  /** A directory that others could enter before their rights are taken is never made. */
  private static void makeDirectory(Path directory) throws IOException {
    if (!Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)) {
      Path above = directory.getParent();
      if (above != null && Files.notExists(above)) {
        makeDirectory(above);
      }
      DirectoryTrust.requirePlaceFor(directory);
      try {
        Files.createDirectory(directory, OURS_ALONE);
      } catch (FileAlreadyExistsException another) {
        // A JVM beside us was first; whose it is, is looked at next.
      }
    }
    DirectoryTrust.require(directory);
  }

  /** Whether the kernel lets code be loaded from there: not where it is mounted noexec. */
  boolean isUsable() {
    return Files.isExecutable(path) && NativePath.survivesAsText(path);
  }
}
