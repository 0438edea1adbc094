package dev.gpuprocess.criu.internal.images;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** The memory that the processes of a tree share, read once for all of them. */
final class Segments {

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
