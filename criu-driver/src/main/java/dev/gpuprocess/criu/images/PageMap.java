package dev.gpuprocess.criu.images;

import dev.gpuprocess.criu.proto.Images.pagemap_entry;
import dev.gpuprocess.criu.proto.Images.pagemap_head;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Which pages of an address space, or of a shared memory segment, are in the images.
 *
 * @param pages the file with the pages
 * @param runs what is in it, in its order
 */
record PageMap(Path pages, List<Run> runs) {

  private static final int IN_PARENT = 1;
  private static final int LAZY = 2;
  private static final int PRESENT = 4;

  /**
   * Pages in a row.
   *
   * @param start the address of the first
   * @param end the address after the last
   * @param offset where they are in the file; -1 when they are not
   * @param inParent whether they are in the images of the pre-dump before
   */
  record Run(long start, long end, long offset, boolean inParent) {

    boolean isPresent() {
      return offset >= 0;
    }

    /** How many bytes of it are between two addresses. */
    long within(long from, long to) {
      return Math.max(0, Math.min(end, to) - Math.max(start, from));
    }
  }

  /** A map without pages, for what has none. */
  static PageMap empty(Path images) {
    return new PageMap(images, List.of());
  }

  /** Reads a page map; empty when there is no such file. */
  static Optional<PageMap> read(Path images, String name, long pageSize) throws IOException {
    Path file = images.resolve("pagemap-" + name + ".img");
    if (!Files.exists(file)) {
      return Optional.empty();
    }
    try (Img image = Img.open(file, Img.Kind.PAGEMAP)) {
      pagemap_head head =
          image
              .next(pagemap_head.parser())
              .orElseThrow(() -> new BadImageException(file + " has no head"));
      List<Run> runs = new ArrayList<>();
      long offset = 0;
      Optional<pagemap_entry> next = image.next(pagemap_entry.parser());
      while (next.isPresent()) {
        Run run = run(next.get(), offset, pageSize, file);
        runs.add(run);
        offset += run.isPresent() ? run.end() - run.start() : 0;
        next = image.next(pagemap_entry.parser());
      }
      Path pages = images.resolve("pages-" + Integer.toUnsignedString(head.getPagesId()) + ".img");
      return Optional.of(new PageMap(pages, runs));
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
    try {
      long end = Math.addExact(entry.getVaddr(), Math.multiplyExact(count, pageSize));
      if (count < 0 || entry.getVaddr() < 0) {
        throw new BadImageException(file + " has pages where none can be");
      }
      return new Run(entry.getVaddr(), end, present ? offset : -1, inParent);
    } catch (ArithmeticException e) {
      throw new BadImageException(file + " has more pages than there can be");
    }
  }

  /** How many bytes between two addresses are in the images. */
  long present(long from, long to) {
    return runs.stream().filter(Run::isPresent).mapToLong(run -> run.within(from, to)).sum();
  }

  /** How many bytes between two addresses are in the images of the pre-dump before. */
  long inParent(long from, long to) {
    return runs.stream().filter(Run::inParent).mapToLong(run -> run.within(from, to)).sum();
  }

  /**
   * Reads memory.
   *
   * @return empty when some of it is not in the images
   */
  Optional<byte[]> read(long address, int length) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(length);
    if (present(address, address + length) < length) {
      return Optional.empty();
    }
    try (FileChannel file = FileChannel.open(pages)) {
      for (Run run : runs) {
        long part = run.isPresent() ? run.within(address + bytes.position(), address + length) : 0;
        if (part > 0 && run.start() <= address + bytes.position()) {
          bytes.limit(bytes.position() + (int) part);
          long from = run.offset() + address + bytes.position() - run.start();
          while (bytes.hasRemaining()) {
            int count = file.read(bytes, from);
            if (count <= 0) {
              throw new BadImageException(pages + " is cut off");
            }
            from += count;
          }
        }
      }
    }
    return bytes.position() == length ? Optional.of(bytes.array()) : Optional.empty();
  }
}
