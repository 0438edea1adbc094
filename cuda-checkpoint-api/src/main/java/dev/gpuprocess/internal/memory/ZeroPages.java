package dev.gpuprocess.internal.memory;

import dev.gpuprocess.internal.linux.AlignedBuffer;
import dev.gpuprocess.internal.linux.BlockFile;
import dev.gpuprocess.internal.linux.CopyBuffers;
import dev.gpuprocess.internal.linux.IoExecutor;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.internal.linux.NamelessFile;
import dev.gpuprocess.internal.pool.PreparedMemory;
import dev.gpuprocess.internal.proc.AddressRange;
import dev.gpuprocess.internal.proc.FileId;
import dev.gpuprocess.internal.proc.Mapping;
import dev.gpuprocess.internal.proc.ProcFields;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcLimit;
import dev.gpuprocess.internal.remote.RemoteCallException;
import dev.gpuprocess.internal.remote.RemoteCalls;
import dev.gpuprocess.internal.remote.RemoteThread;
import dev.gpuprocess.internal.remote.SystemCall;
import dev.gpuprocess.internal.remote.UntraceableException;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The parts of a save area that are zero, in huge pages. In the process they are replaced by
 * private memory that was never written, and their pages are given back. A read finds zeros there
 * and takes no memory, so the process has its bytes at every moment, for every reader: a driver
 * with or without the hook, CRIU, or another controller. The mappings of the process are the only
 * record of the zeros.
 *
 * <p>This JVM reads the files by their own descriptors, after the driver has written them.
 */
final class ZeroPages {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Duration BORROWING = Duration.ofSeconds(30);

  private static final long HUGE_PAGE = 2 << 20;

  /** How much one task reads. */
  private static final long PIECE = 64 << 20;

  /** Fewer bytes are not worth stopping a thread. */
  private static final long LEAST = 16 << 20;

  /** Each range takes a system call now, and makes at most two mappings more in the process. */
  private static final int MOST_RANGES = 1024;

  /** The kernel counts all private memory, as {@code vm.overcommit_memory} says. */
  private static final int STRICT = 2;

  private static final int PRIVATE_FIXED_UNRESERVED = 0x4032; // with MAP_ANONYMOUS
  private static final int MADV_DONTFORK = 10;
  private static final int MADV_HUGEPAGE = 14;

  private final ProcessIdentity process;
  private final Map<FileId, BlockFile> files;
  private final List<Mapping> mappings;

  private ZeroPages(ProcessIdentity process, Map<FileId, BlockFile> files, List<Mapping> mappings) {
    this.process = process;
    this.files = files;
    this.mappings = mappings;
  }

  /**
   * Gives the zero pages of a checkpointed process back.
   *
   * @param memory in which the driver has made the save areas
   * @return how many bytes were given back
   * @throws UntraceableException if no call can be made in the process
   * @throws IOException if the files cannot be read or a call failed; the process has its bytes
   */
  static long giveBack(ProcessIdentity process, PreparedMemory memory)
      throws UntraceableException, IOException {
    Map<FileId, BlockFile> files = new HashMap<>();
    try {
      for (NamelessFile each : memory.files()) {
        files.put(each.id(), BlockFile.open(each.path(), false));
      }
      List<Mapping> mappings =
          Mapping.of(
              process.pid(),
              each -> each.permissions().equals("rw-s") && files.containsKey(each.file()));
      return new ZeroPages(process, files, mappings).giveBack();
    } finally {
      files.values().forEach(BlockFile::close);
    }
  }

  private long giveBack() throws UntraceableException, IOException {
    List<AddressRange> zero = mayReplace() ? largest(adjoined(zeroPages())) : List.of();
    if (bytes(zero) < LEAST) {
      return 0;
    }
    List<AddressRange> replaced =
        RemoteCalls.borrow(process, BORROWING, thread -> replace(thread, zero));
    for (Mapping mapping : mappings) {
      for (AddressRange range : replaced) {
        Optional<AddressRange> part = mapping.addresses().and(range);
        if (part.isPresent()) {
          punch(mapping, part.get());
        }
      }
    }
    return bytes(replaced);
  }

  private static long bytes(List<AddressRange> ranges) {
    return ranges.stream().mapToLong(AddressRange::bytes).sum();
  }

  /**
   * Returns whether private memory in the place of the files costs the process nothing: where the
   * kernel counts it, by a limit or strict accounting, or fills it at once, the files stay.
   */
  private boolean mayReplace() throws IOException {
    long all = mappings.stream().mapToLong(each -> each.addresses().bytes()).sum();
    long locked =
        ProcFields.bytes(ProcFs.read(process.pid(), "status").orElse(""), Set.of("VmLck"))
            .orElse(0);
    return ProcFs.kernelNumber("sys/vm/overcommit_memory") != STRICT
        && ProcLimit.DATA.room(process.pid()).isEmpty()
        && locked < Math.max(1, all);
  }

  /** Returns the pages that are zero, ordered by address. */
  private List<AddressRange> zeroPages() throws IOException {
    try (IoExecutor threads = IoExecutor.copying()) {
      List<CompletableFuture<List<AddressRange>>> parts = new ArrayList<>();
      for (Mapping mapping : mappings) {
        for (long at = mapping.start(); at < mapping.end(); at += PIECE) {
          AddressRange part = new AddressRange(at, Math.min(mapping.end(), at + PIECE));
          parts.add(threads.start(() -> zeroPages(mapping, part)));
        }
      }
      return IoExecutor.awaitAll(parts).stream().flatMap(List::stream).toList();
    }
  }

  private List<AddressRange> zeroPages(Mapping mapping, AddressRange part) throws IOException {
    BlockFile file = file(mapping);
    List<AddressRange> zero = new ArrayList<>();
    AlignedBuffer buffer = CopyBuffers.SMALL.take();
    try {
      for (long at = part.start(); at < part.end(); at += HUGE_PAGE) {
        AddressRange page = new AddressRange(at, Math.min(part.end(), at + HUGE_PAGE));
        if (file.isZero(buffer, page.bytes(), offset(mapping, at))) {
          zero.add(page);
        }
      }
    } finally {
      CopyBuffers.give(buffer);
    }
    return zero;
  }

  private BlockFile file(Mapping mapping) {
    return Objects.requireNonNull(files.get(mapping.file()));
  }

  private static long offset(Mapping mapping, long address) {
    return mapping.offset() + address - mapping.start();
  }

  private static List<AddressRange> adjoined(List<AddressRange> pages) {
    List<AddressRange> ranges = new ArrayList<>();
    for (AddressRange page : pages) {
      int last = ranges.size() - 1;
      if (last >= 0 && ranges.get(last).end() == page.start()) {
        ranges.set(last, new AddressRange(ranges.get(last).start(), page.end()));
      } else {
        ranges.add(page);
      }
    }
    return ranges;
  }

  /** Returns the largest ranges, as many as a process may well have. */
  private List<AddressRange> largest(List<AddressRange> ranges) throws IOException {
    long more = ProcFs.kernelNumber("sys/vm/max_map_count") - ProcFs.memory(process.pid()).size();
    return ranges.stream()
        .sorted(Comparator.comparingLong(AddressRange::bytes).reversed())
        .limit(Math.max(0, Math.min(MOST_RANGES, more / 8)))
        .toList();
  }

  /** Maps private memory over the ranges, until the kernel refuses one; that one is unchanged. */
  private List<AddressRange> replace(RemoteThread thread, List<AddressRange> zero)
      throws UntraceableException, IOException {
    List<AddressRange> replaced = new ArrayList<>();
    try {
      for (AddressRange each : zero) {
        thread.call(
            SystemCall.MMAP,
            each.start(),
            each.bytes(),
            Libc.PROT_READ_WRITE,
            PRIVATE_FIXED_UNRESERVED,
            -1,
            0);
        replaced.add(each);
      }
    } catch (RemoteCallException refused) {
      LOG.debug("process {} keeps the other zeros", process.pid(), refused);
    }
    for (Mapping each : mappings) {
      advise(thread, each.addresses(), MADV_DONTFORK);
      advise(thread, each.addresses(), MADV_HUGEPAGE);
    }
    return replaced;
  }

  private void advise(RemoteThread thread, AddressRange range, int advice)
      throws UntraceableException, IOException {
    try {
      thread.call(SystemCall.MADVISE, range.start(), range.bytes(), advice);
    } catch (RemoteCallException refused) {
      LOG.debug("process {}: advice {} was refused", process.pid(), advice, refused);
    }
  }

  /** The process no longer maps this part. */
  private void punch(Mapping mapping, AddressRange part) throws IOException {
    BlockFile file = file(mapping);
    if (!file.punch(part.bytes(), offset(mapping, part.start()))) {
      LOG.debug("the memory of {} in {} is not given back", part, mapping.name());
    }
  }
}
