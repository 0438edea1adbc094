package dev.gpuprocess.examples.bus;

import com.sun.management.OperatingSystemMXBean;
import dev.gpuprocess.examples.demo.Machine;
import dev.gpuprocess.examples.demo.Scratch;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Where images go.
 *
 * @param tmpfs a directory on a tmpfs, which has the host memory too
 * @param disk a directory on a disk
 */
record Place(Path tmpfs, Path disk) {

  private static final long GIB = 1L << 30;

  /** What a process needs besides, and what is left alone. */
  private static final long SPARE = 6 * GIB;

  /** A directory for an image on the tmpfs. */
  Scratch onTmpfs() throws IOException {
    return Scratch.of(Files.createTempDirectory(tmpfs, "gpu-bus"));
  }

  /** A directory for an image on the disk. */
  Scratch onDisk() throws IOException {
    return Scratch.of(Files.createTempDirectory(disk, "gpu-bus"));
  }

  /** What a checkpoint saves besides the memory that a process has asked for, in bytes, at most. */
  long besides(Machine machine) {
    return machine.isSimulated() ? GIB / 4 : GIB;
  }

  /** Whether an image of that size and the memory of its process can be in memory together. */
  boolean hasMemoryFor(Size size) throws IOException {
    long spare = Math.min(SPARE, memory() / 4);
    return Files.getFileStore(tmpfs).getUsableSpace() > size.bytes() + GIB / 2
        && memory() > 2 * size.bytes() + spare;
  }

  /** Of the machine, or what the control group of this JVM allows, in bytes. */
  private static long memory() throws IOException {
    long allowed =
        ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getTotalMemorySize();
    return Math.min(allowed, TouchedMemory.available() << 20);
  }

  /** Whether an image of that size fits on the disk; a tmpfs is none. */
  boolean hasDiskFor(Size size) throws IOException {
    FileStore store = Files.getFileStore(disk);
    return !store.type().equals("tmpfs") && store.getUsableSpace() > size.bytes() + 2 * GIB;
  }
}
