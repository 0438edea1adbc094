package dev.gpuprocess.examples.bus;

import com.sun.management.OperatingSystemMXBean;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import dev.gpuprocess.internal.proc.HostMemory;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The directories for images.
 *
 * @param tmpfs a directory on a tmpfs, also for host memory
 * @param disk a directory on a disk
 */
record Place(Path tmpfs, Path disk) {

  private static final long GIB = 1L << 30;

  /** Memory for a process besides its GPU memory, and for the rest of the machine. */
  private static final long SPARE = 6 * GIB;

  /** Makes a directory for an image on the tmpfs. */
  Scratch onTmpfs() throws IOException {
    return Scratch.of(Files.createTempDirectory(tmpfs, "gpu-bus"));
  }

  /** Makes a directory for an image on the disk. */
  Scratch onDisk() throws IOException {
    return Scratch.of(Files.createTempDirectory(disk, "gpu-bus"));
  }

  /** Returns the most bytes that a checkpoint saves besides the memory of the pattern. */
  long besides(Machine machine) {
    return machine.isSimulated() ? GIB / 4 : GIB;
  }

  /** Returns whether an image of that size and the memory of its process fit into memory. */
  boolean hasMemoryFor(Size size) throws IOException {
    long spare = Math.min(SPARE, memory() / 4);
    return Files.getFileStore(tmpfs).getUsableSpace() > size.bytes() + GIB / 2
        && memory() > 2 * size.bytes() + spare;
  }

  /** Returns the free memory, or the limit of the control group of this JVM, in bytes. */
  private static long memory() throws IOException {
    long allowed =
        ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getTotalMemorySize();
    return Math.min(allowed, HostMemory.read(HostMemory.FILE).available());
  }

  /** Returns whether an image and a file of that size fit on the disk; false for a tmpfs. */
  boolean hasDiskFor(Size size) throws IOException {
    FileStore store = Files.getFileStore(disk);
    return !store.type().equals("tmpfs") && store.getUsableSpace() > 2 * (size.bytes() + GIB);
  }
}
