package dev.gpuprocess.internal.inherited;

import dev.gpuprocess.internal.linux.Descriptors;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.proc.FileNode;
import java.nio.file.FileSystemException;
import java.nio.file.Path;

/**
 * {@code /dev/null} as another process sees it. CRIU dumps a descriptor of it by the mount that it
 * was opened on, which is in the namespace of that process.
 */
final class NullDevice {

  private static final int MEMORY_MAJOR = 1;
  private static final int NULL_MINOR = 3;

  private NullDevice() {}

  /**
   * Opens it.
   *
   * @return a descriptor of this JVM
   * @throws NotReleasableException when the process has none
   */
  static int open(int pid) throws NotReleasableException {
    Path path = Path.of("/proc", Integer.toString(pid), "root", "dev", "null");
    try {
      int held = Descriptors.hold(path); // whatever it is, that does nothing to it
      try {
        Path same = Path.of("/proc/self/fd", Integer.toString(held));
        if (FileNode.at(same).filter(NullDevice::is).isEmpty()) {
          throw new NotReleasableException("its /dev/null is another file");
        }
        return Libc.open(same, Libc.O_RDWR);
      } finally {
        Descriptors.close(held);
      }
    } catch (FileSystemException e) {
      throw new NotReleasableException("its /dev/null cannot be opened: " + e.getMessage(), e);
    }
  }

  private static boolean is(FileNode node) {
    return node.isCharacterDevice() && node.major() == MEMORY_MAJOR && node.minor() == NULL_MINOR;
  }
}
