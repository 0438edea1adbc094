package dev.gpuprocess.internal.handover;

import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.HandedOver;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.trace.UntraceableException;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The hand-over of one process's memory to one file, and the way back. The process has its bytes at
 * every moment: a private mapping of a file that nobody changes reads as the memory did, and what
 * is written to it becomes the process's own again. For one thread.
 */
public final class MemoryHandOver {

  private final ProcessIdentity process;
  private final int number;
  private List<AddressRange> areas;
  private @Nullable HandOver begun;
  private @Nullable ImageFile made;
  private @Nullable MemoryFile described;

  /**
   * Looks which memory is to be handed over.
   *
   * @param number of the file, from 1, which no other process of the image has
   * @param mapped what the driver mapped for the process's GPU memory at its checkpoint
   * @throws dev.gpuprocess.error.ProcessUnreadableException when its mappings may not be read
   */
  public MemoryHandOver(ProcessIdentity process, int number, List<AddressRange> mapped) {
    this.process = process;
    this.number = number;
    this.areas = SaveAreas.planned(process.pid(), mapped);
  }

  /** The name of a file in its directory. */
  static String name(int number) {
    return "memory-" + number + ".bin";
  }

  /** The path of a file from the image, or the spool, that it is in. */
  static String file(int number) {
    return MemoryFile.DIRECTORY + "/" + name(number);
  }

  /** The name of its file in the directory of memory files. */
  public String name() {
    return name(number);
  }

  /** How much memory it is about; 0 when there is none. */
  public long bytes() {
    return areas.stream().mapToLong(AddressRange::bytes).sum();
  }

  /** Whether a part of it lies in a file of an earlier image, which this image must not need. */
  public boolean isNeeded() {
    return HandedOver.bytes(process.pid()) > 0;
  }

  /**
   * What stands in the way outside of the process.
   *
   * @param beside the directory of CRIU's files, beside which that of the file will be
   * @return empty when nothing does
   */
  public Optional<String> obstacle(Path beside) {
    try {
      if (!namespace(Integer.toString(process.pid())).equals(namespace("self"))) {
        return Optional.of("it has a mount namespace of its own, where the image is not seen");
      }
      String path = NativePath.text(beside.toRealPath().resolveSibling(file(number)));
      return MemoryFile.isPath(path, file(number))
          ? Optional.empty()
          : Optional.of("the name of the image's directory is not text in UTF-8");
    } catch (IOException e) {
      return Optional.of("its mount namespace, or the image's directory, cannot be read: " + e);
    }
  }

  private static String namespace(String pid) throws IOException {
    return Files.readSymbolicLink(Path.of("/proc", pid, "ns", "mnt")).toString();
  }

  /**
   * Does it, with what there is of that memory when the process is held.
   *
   * @param directory of memory files, where the file is made
   * @param direct whether to write past the page cache where that is possible
   * @param limit for the copying
   * @param time for all of it
   * @throws NotHeldException when the process cannot be held, or nothing is left to hand over;
   *     nothing happened to it
   * @throws IOException when it failed; {@link #putBack} undoes what was done
   */
  public void run(
      Path directory,
      boolean direct,
      Checksum checksum,
      CopyLimit limit,
      Duration time,
      DiskWork disk)
      throws IOException {
    Path file = directory.resolve(name());
    try {
      Holding.during(
          process,
          time,
          held -> {
            areas = stillThere();
            HandOver handOver =
                new HandOver(
                    process.pid(), areas, file, direct, checksum, limit, HandOver.PIECE_BYTES);
            begun = handOver;
            handOver.run(held, disk);
          });
    } catch (UntraceableException e) {
      if (begun == null || begun.mapped().isEmpty()) {
        throw new NotHeldException(String.valueOf(e.getMessage()), e);
      }
      throw new IOException(e.getMessage(), e);
    }
    HandOver done = Objects.requireNonNull(begun);
    made = done.file(checksum);
    described = done.memory(NativePath.text(file.toRealPath()));
  }

  private List<AddressRange> stillThere() throws NotHeldException {
    List<AddressRange> still;
    try {
      still = SaveAreas.stillThere(process.pid(), areas);
    } catch (ProcessUnreadableException e) {
      throw new NotHeldException(String.valueOf(e.getMessage()), e);
    }
    if (still.isEmpty()) {
      throw new NotHeldException(
          "the memory that the driver mapped in process %s is not there any more, or has a memory policy or other settings that would be lost"
              .formatted(process.pid()),
          null);
    }
    return still;
  }

  /**
   * Gives a process memory of its own in the place of what it has from a file of a hand-over. Does
   * nothing where it has nothing from one.
   *
   * @param time for all of it
   * @throws IOException when it cannot be done; what is left stays mapped from the file
   */
  public static void takeBack(ProcessIdentity process, Duration time) throws IOException {
    int pid = process.pid();
    if (HandedOver.bytes(pid) == 0) {
      return;
    }
    try {
      // The mappings are read again: they may have changed until the process was held.
      Holding.during(process, time, held -> new PutBack(pid, held).run(HandedOver.of(pid)));
    } catch (UntraceableException e) {
      throw new IOException(e.getMessage(), e);
    }
  }

  /**
   * Gives a process and all its descendants memory of their own, as {@link #takeBack} does. A child
   * that was forked while its parent had memory in a file has it there, too.
   *
   * @param time for each of them
   * @throws IOException when it cannot be done for one of them; the others have theirs
   */
  public static void takeBackInTree(ProcessIdentity root, Duration time) throws IOException {
    IOException failed = null;
    for (int pid : ProcFs.tree(root.pid())) {
      Optional<ProcessIdentity> process = ProcessIdentity.of(pid);
      try {
        if (process.isPresent()) {
          takeBack(process.get(), time);
        }
      } catch (IOException e) {
        failed = e;
      }
    }
    if (failed != null) {
      throw failed;
    }
  }

  /** The file that was made; empty before that. */
  public Optional<ImageFile> file() {
    return Optional.ofNullable(made);
  }

  /** What it holds; empty before it was made. */
  public Optional<MemoryFile> memory() {
    return Optional.ofNullable(described);
  }

  /**
   * Gives the process memory of its own again. Does nothing when nothing was mapped.
   *
   * @param time for all of it
   * @throws IOException when it cannot be done; the process maps the file then, which stays on the
   *     disk as long as it does, also when it has no name any more
   */
  public void putBack(Duration time) throws IOException {
    if (begun == null || begun.mapped().isEmpty()) {
      return;
    }
    begun = null;
    takeBack(process, time);
  }
}
