package dev.gpuprocess.criu.internal.images;

import dev.gpuprocess.criu.proto.Images.mm_entry;
import dev.gpuprocess.criu.proto.Images.vma_entry;
import dev.gpuprocess.image.DumpedMemory;
import dev.gpuprocess.image.DumpedMemory.Kind;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The memory of one process. */
final class MemoryReader {

  // CRIU's flags of mappings
  private static final int STACK = 1 << 1;
  private static final int KERNEL = 1 << 2 | 1 << 3 | 1 << 12 | 1 << 17; // vsyscall, vdso, ...
  private static final int FILE_PRIVATE = 1 << 6;
  private static final int FILE_SHARED = 1 << 7;
  private static final int ANON_SHARED = 1 << 8;
  private static final int ANON_PRIVATE = 1 << 9;
  private static final int SYSTEM_V = 1 << 10;
  private static final int MEMFD = 1 << 14;

  private static final int LONGEST_COMMAND_LINE = 1 << 20;

  /** The memory that the processes of a tree share, read once for all of them. */
  static final class Segments {

    /** Some tens of MiB. */
    private static final int MOST_RUNS = 1 << 20;

    private final Path images;
    private final long pageSize;
    private final Map<Long, PageMap> known = new HashMap<>();
    private int runs;

    Segments(Path images, long pageSize) {
      this.images = images;
      this.pageSize = pageSize;
    }

    /** The page map of a segment, whose addresses begin at 0. */
    PageMap map(long id) throws IOException {
      PageMap map = known.get(id);
      if (map == null) {
        map = PageMap.read(images, "shmem-" + Long.toUnsignedString(id), pageSize);
        if (runs + map.size() > MOST_RUNS) {
          known.clear();
          runs = 0;
        }
        runs += map.size();
        known.put(id, map);
      }
      return map;
    }
  }

  private final mm_entry mm;
  private final PageMap own;
  private final Segments segments;

  MemoryReader(Path images, int pid, long pageSize, Segments segments) throws IOException {
    this.segments = segments;
    this.mm =
        ImageFileReader.only(
            images.resolve("mm-" + pid + ".img"), ImageFileReader.Kind.MM, mm_entry.parser());
    this.own = PageMap.read(images, Integer.toString(pid), pageSize);
  }

  int executable() {
    return mm.getExeFileId();
  }

  List<DumpedMemory> byKind() throws IOException {
    Map<Kind, DumpedMemory> sums = new EnumMap<>(Kind.class);
    for (vma_entry mapping : mm.getVmasList()) {
      DumpedMemory one = one(mapping);
      sums.merge(one.kind(), one, MemoryReader::sum);
    }
    return new ArrayList<>(sums.values());
  }

  private static DumpedMemory sum(DumpedMemory a, DumpedMemory b) {
    return new DumpedMemory(
        a.kind(), a.mappings() + b.mappings(), a.mapped() + b.mapped(), a.dumped() + b.dumped());
  }

  private DumpedMemory one(vma_entry mapping) throws IOException {
    Kind kind = kind(mapping.getStatus());
    boolean shared = kind == Kind.SHARED || kind == Kind.MEMFD || kind == Kind.SYSTEM_V;
    PageMap pages = shared ? segments.map(mapping.getShmid()) : own;
    long length = mapping.getEnd() - mapping.getStart();
    long from = shared ? mapping.getPgoff() : mapping.getStart();
    return new DumpedMemory(kind, 1, length, pages.present(from, from + length));
  }

  private static Kind kind(int status) {
    if ((status & KERNEL) != 0) {
      return Kind.KERNEL;
    }
    if ((status & MEMFD) != 0) {
      return Kind.MEMFD;
    }
    if ((status & SYSTEM_V) != 0) {
      return Kind.SYSTEM_V;
    }
    if ((status & STACK) != 0) {
      return Kind.STACK;
    }
    if ((status & ANON_SHARED) != 0) {
      return Kind.SHARED;
    }
    if ((status & ANON_PRIVATE) != 0) {
      return Kind.ANONYMOUS;
    }
    if ((status & FILE_SHARED) != 0) {
      return Kind.FILE_SHARED;
    }
    return (status & FILE_PRIVATE) != 0 ? Kind.FILE_PRIVATE : Kind.OTHER;
  }

  /** The arguments, as they were in memory; empty if that memory is not in these images. */
  List<String> commandLine() throws IOException {
    long length = mm.getMmArgEnd() - mm.getMmArgStart();
    if (length <= 0 || length > LONGEST_COMMAND_LINE) {
      return List.of();
    }
    return own.read(mm.getMmArgStart(), (int) length)
        .map(bytes -> List.of(new String(bytes, StandardCharsets.UTF_8).split("\0")))
        .orElse(List.of());
  }
}
