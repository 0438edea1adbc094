package dev.gpuprocess.internal.inherited;

import dev.gpuprocess.internal.linux.MappedFile;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.GpuFiles;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;

/** The GPU device files that a process has open or mapped. Immutable. */
public record GpuHandles(List<OpenFile> descriptors, List<Mapping> mappings) {

  public GpuHandles {
    descriptors = List.copyOf(descriptors);
    mappings = List.copyOf(mappings);
  }

  /**
   * Reads those of NVIDIA's driver that a process has.
   *
   * @param each called for each descriptor and mapping; its exception ends the reading
   * @throws dev.gpuprocess.internal.proc.ProcessUnreadableException if the process may not be read
   */
  public static GpuHandles of(int pid, Runnable each) {
    return of(pid, GpuFiles::isNvidiaDevice, each);
  }

  /** Reads those of AMD GPUs in the same way. */
  public static GpuHandles ofAmd(int pid, Runnable each) {
    return of(pid, GpuFiles::isAmdDevice, each);
  }

  private static GpuHandles of(int pid, Predicate<String> isDevice, Runnable each) {
    Predicate<String> wanted =
        name -> {
          each.run();
          return isDevice.test(name);
        };
    return new GpuHandles(
        OpenFile.of(pid, file -> wanted.test(file.target())),
        Mapping.of(pid, mapping -> wanted.test(mapping.name())));
  }

  /** Returns whether there are none. */
  public boolean isEmpty() {
    return descriptors.isEmpty() && mappings.isEmpty();
  }

  /** Returns the name of one of them. */
  public Optional<String> first() {
    return descriptors.stream()
        .map(OpenFile::target)
        .findFirst()
        .or(() -> mappings.stream().map(Mapping::name).findFirst());
  }

  /** Checks that all of them are devices, since any file may have such a name. */
  void requireDevices(int pid) throws NotReleasableException {
    for (OpenFile file : descriptors) {
      Path link = ProcFs.file(pid, "fd/" + file.number());
      requireDevice(pid, FileNode.at(link), file.target());
    }
    for (Mapping mapping : mappings) {
      requireDevice(pid, MappedFile.examine(pid, mapping), mapping.name());
    }
  }

  private static void requireDevice(int pid, Optional<FileNode> file, String name)
      throws NotReleasableException {
    FileNode node =
        file.orElseThrow(
            () ->
                new NotReleasableException(
                    "%s of process %s cannot be examined: run as root".formatted(name, pid)));
    if (!node.isCharacterDevice() && !node.isBlockDevice()) {
      throw new NotReleasableException("%s is not a device file".formatted(name));
    }
  }
}
