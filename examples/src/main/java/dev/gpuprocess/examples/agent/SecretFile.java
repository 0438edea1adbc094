package dev.gpuprocess.examples.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;

/** A file with a secret, which no other user may read or replace. */
final class SecretFile {

  private static final Path SELF = Path.of("/proc/self");
  private static final Set<PosixFilePermission> OWNER =
      EnumSet.of(
          PosixFilePermission.OWNER_READ,
          PosixFilePermission.OWNER_WRITE,
          PosixFilePermission.OWNER_EXECUTE);

  private SecretFile() {}

  /**
   * Checks the file, and not the links to it: the files of a Kubernetes secret are links.
   *
   * @return the file behind the links, which is to be read
   * @throws IOException when the file does not exist, belongs to another user than root and the
   *     user of the agent, or grants a permission to the group or to others
   */
  static Path check(Path file) throws IOException {
    Path real = file.toRealPath();
    Map<String, Object> found = Files.readAttributes(real, "unix:uid,permissions");
    Object owner = found.get("uid");
    Object self = Files.getAttribute(SELF, "unix:uid");
    if (!Integer.valueOf(0).equals(owner) && !self.equals(owner)) {
      throw new IOException(
          "the secret %s belongs to the user with id %s, and the agent runs as %s: run chown %s %s"
              .formatted(file, owner, self, self, real));
    }
    @SuppressWarnings("unchecked")
    Set<PosixFilePermission> permissions = (Set<PosixFilePermission>) found.get("permissions");
    if (!OWNER.containsAll(permissions)) {
      throw new IOException(
          "the secret %s has the permissions %s, so other users can use it: run chmod 0400 %s, or set defaultMode: 0400 of the secret's volume"
              .formatted(file, PosixFilePermissions.toString(permissions), real));
    }
    return real;
  }
}
