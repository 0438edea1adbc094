package dev.gpuprocess.internal.handover;

import dev.gpuprocess.image.Checksum;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.image.MemoryFile;
import dev.gpuprocess.internal.os.BlockFile;
import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.store.IoExecutor;
import dev.gpuprocess.internal.trace.UntraceableException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * Copies memory of a process into a file and maps the file in its place, piece by piece: a piece is
 * complete and on the disk before it is mapped, so the process has its bytes at every moment. While
 * one is copied the one before is synced, so at most two of them are in memory twice. For one
 * thread.
 */
final class HandOver {

  /** Whole chunks, enough for all threads. */
  static final long PIECE_BYTES = 16 * ImageFile.CHUNK_BYTES;

  private final List<PlacedRange> ranges;
  private final Path file;
  private final boolean direct;
  private final long pieceBytes;
  private final MemoryCopy copy;
  private final List<PlacedRange> mapped = new ArrayList<>();

  /**
   * Prepares; nothing is done yet.
   *
   * @param file does not exist yet
   * @param direct whether to write past the page cache where that is possible
   * @param pieceBytes what is mapped at once, a multiple of {@link ImageFile#CHUNK_BYTES}
   */
  HandOver(
      int pid,
      List<AddressRange> areas,
      Path file,
      boolean direct,
      Checksum checksum,
      CopyLimit limit,
      long pieceBytes) {
    this.ranges = PlacedRange.inTurn(areas);
    this.file = file;
    this.direct = direct;
    this.pieceBytes = pieceBytes;
    this.copy = new MemoryCopy(pid, ranges, checksum, limit);
  }

  /** How much memory it is about. */
  long bytes() {
    return ranges.get(ranges.size() - 1).end();
  }

  /**
   * Does it.
   *
   * @param held the process
   * @throws IOException when memory cannot be copied or mapped, or the file not be written; what
   *     was mapped until then stays so
   */
  void run(Holding held, DiskWork disk) throws IOException, UntraceableException {
    try {
      int descriptor = disk.run(() -> unchecked(this::make), HandOver::close);
      try {
        held.rehearse(descriptor);
        for (long from = 0; from < bytes() + pieceBytes; from += pieceBytes) {
          long copied = from;
          boolean unused = disk.run(() -> unchecked(() -> synced(copied)), late -> {});
          List<PlacedRange> complete = parts(copied - pieceBytes, copied);
          if (!complete.isEmpty()) {
            // Always the same open file: the kernel joins the mappings then.
            held.map(complete, descriptor, mapped);
          }
        }
      } finally {
        Descriptors.close(descriptor);
      }
    } catch (UncheckedIOException e) {
      throw e.getCause();
    }
  }

  private int make() throws IOException {
    try (BlockFile made = BlockFile.create(file, direct)) {
      made.reserve(bytes());
      return made.openForReading();
    }
  }

  /**
   * Syncs what was copied, while the next piece is copied. Whoever does this alone has the file
   * open, so that it can be abandoned to a disk that hangs.
   *
   * @param copied where the copied part ends
   */
  private boolean synced(long copied) throws IOException {
    try (BlockFile open = BlockFile.open(file, direct);
        IoExecutor beside = IoExecutor.streaming()) {
      CompletableFuture<Boolean> sync = beside.start(() -> copied == 0 || synced(open));
      copy.copy(open, copied, Math.min(bytes(), copied + pieceBytes));
      return IoExecutor.await(sync);
    }
  }

  private static boolean synced(BlockFile open) throws IOException {
    open.sync();
    return true;
  }

  private static void close(@Nullable Integer descriptor) {
    if (descriptor != null) {
      Descriptors.close(descriptor);
    }
  }

  private List<PlacedRange> parts(long from, long to) {
    return ranges.stream().flatMap(range -> range.in(from, to).stream()).toList();
  }

  /** What is mapped from the file now. */
  List<AddressRange> mapped() {
    return AddressRange.joined(mapped.stream().map(PlacedRange::range).toList());
  }

  /** The file, with the checksums of what was copied. */
  ImageFile file(Checksum checksum) {
    return new ImageFile(name(), bytes(), checksum, copy.sums());
  }

  /** What the file holds. */
  MemoryFile memory(String mappedAs) {
    return new MemoryFile(
        name(), mappedAs, ranges.stream().map(each -> each.range().toString()).toList());
  }

  private String name() {
    return MemoryFile.DIRECTORY + "/" + file.getFileName();
  }

  /** Work that may fail. */
  private interface Work<T> {
    T run() throws IOException;
  }

  private static <T> T unchecked(Work<T> work) {
    try {
      return work.run();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
