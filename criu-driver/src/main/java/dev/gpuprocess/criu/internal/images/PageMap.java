package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.proto.Images.pagemap_entry;
import dev.gpuprocess.criu.proto.Images.pagemap_head;
import dev.gpuprocess.internal.linux.Descriptors;
import java.io.EOFException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/**
 * Which pages of an address space, or of a shared memory segment, are in the images. A process can
 * have as many mappings as runs of pages, so lookups use binary search.
 */
final class PageMap {

  private static final int IN_PARENT = 1;
  private static final int LAZY = 2;
  private static final int PRESENT = 4;

  /**
   * A run of consecutive pages.
   *
   * @param start the address of the first
   * @param end the address after the last
   * @param offset their offset in the pages file; -1 if they are not in it
   */
  private record Run(long start, long end, long offset) {

    boolean isPresent() {
      return offset >= 0;
    }
  }

  private final Path pages;
  private final List<Run> runs;

  /** For each run, how many bytes of all runs before it are in the images. */
  private final long[] presentBefore;

  private PageMap(Path pages, List<Run> runs) {
    this.pages = pages;
    // CRIU writes them in this order, and accepts no other.
    this.runs = runs.stream().sorted(Comparator.comparingLong(Run::start)).toList();
    this.presentBefore = new long[runs.size() + 1];
    for (int i = 0; i < runs.size(); i++) {
      Run run = this.runs.get(i);
      presentBefore[i + 1] = presentBefore[i] + (run.isPresent() ? run.end() - run.start() : 0);
    }
  }

  /** Reads a page map; without pages if the file does not exist. */
  static PageMap read(Path images, String name, long pageSize) throws IOException {
    Path file = images.resolve("pagemap-" + name + ".img");
    if (!Files.exists(file)) {
      return new PageMap(images, List.of());
    }
    try (ImageFileReader image = ImageFileReader.open(file, ImageFileReader.Kind.PAGEMAP)) {
      pagemap_head head =
          image
              .next(pagemap_head.parser())
              .orElseThrow(() -> new BadImageException(file + " has no header"));
      List<Run> runs = new ArrayList<>();
      long offset = 0;
      Optional<pagemap_entry> next = image.next(pagemap_entry.parser());
      while (next.isPresent()) {
        Run run = run(next.get(), offset, pageSize, file);
        runs.add(run);
        offset = Math.addExact(offset, run.isPresent() ? run.end() - run.start() : 0);
        next = image.next(pagemap_entry.parser());
      }
      Path pages = images.resolve("pages-" + Integer.toUnsignedString(head.getPagesId()) + ".img");
      return new PageMap(pages, runs);
    } catch (ArithmeticException e) {
      throw new BadImageException(file + " has more pages than are possible");
    }
  }

  private static Run run(pagemap_entry entry, long offset, long pageSize, Path file)
      throws BadImageException {
    boolean inParent = entry.getInParent() || (entry.getFlags() & IN_PARENT) != 0;
    // Lazy pages are in the file too, unless they stayed with the dumped process.
    boolean present =
        entry.hasFlags() ? (entry.getFlags() & (PRESENT | LAZY)) >= PRESENT : !inParent;
    long count =
        entry.hasNrPages() ? entry.getNrPages() : Integer.toUnsignedLong(entry.getCompatNrPages());
    long end = Math.addExact(entry.getVaddr(), Math.multiplyExact(count, pageSize));
    if (count < 0 || entry.getVaddr() < 0) {
      throw new BadImageException(file + " has pages at impossible addresses");
    }
    return new Run(entry.getVaddr(), end, present ? offset : -1);
  }

  /** Returns the number of runs of pages. */
  int size() {
    return runs.size();
  }

  /** Returns the number of bytes between two addresses that are in the images. */
  long present(long from, long to) {
    return from >= to ? 0 : presentBelow(to) - presentBelow(from);
  }

  /** Returns the number of bytes below an address that are in the images. */
  private long presentBelow(long address) {
    int next = firstAt(address);
    if (next == 0) {
      return 0;
    }
    Run last = runs.get(next - 1);
    long above = Math.max(0, last.end() - address);
    return presentBefore[next] - (last.isPresent() ? above : 0);
  }

  /** The first run that begins at an address or above. */
  private int firstAt(long address) {
    int low = 0;
    int high = runs.size();
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (runs.get(middle).start() < address) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /**
   * Reads memory.
   *
   * @return empty if some of it is not in the images
   */
  Optional<byte[]> read(long address, int length) throws IOException {
    if (present(address, address + length) < length) {
      return Optional.empty();
    }
    byte[] bytes = new byte[length];
    int count = 0;
    try (RandomAccessFile file = Descriptors.read(pages)) {
      for (int i = Math.max(0, firstAt(address) - 1); i < runs.size() && count < length; i++) {
        Run run = runs.get(i);
        long at = address + count;
        if (run.isPresent() && run.start() <= at && at < run.end()) {
          int part = (int) Math.min(run.end() - at, length - count);
          file.seek(run.offset() + at - run.start());
          file.readFully(bytes, count, part);
          count += part;
        }
      }
    } catch (EOFException e) {
      throw new BadImageException(pages + " is cut off");
    }
    return count == length ? Optional.of(bytes) : Optional.empty();
  }
}
