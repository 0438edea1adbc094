package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.criu.internal.images.TreeReader;
import dev.gpuprocess.criu.proto.Stats.dump_stats_entry;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.image.DumpedTree;
import dev.gpuprocess.internal.linux.Libc;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** CRIU's measurements of a dump. */
public final class DumpReports {

  private static final Logger LOG = LoggerFactory.getLogger(DumpReports.class);

  private DumpReports() {}

  /** Reads the statistics; all zero if there are none, since a dump is usable without them. */
  public static DumpReport read(Path work) {
    try {
      return of(StatsFile.read(work.resolve(StatsFile.DUMP)).getDump());
    } catch (IOException e) {
      LOG.debug("this dump has no statistics", e);
      return of(dump_stats_entry.getDefaultInstance());
    }
  }

  private static DumpReport of(dump_stats_entry stats) {
    long pages = stats.getPagesWritten() + stats.getShpagesWritten();
    return new DumpReport(
        micros(stats.getFreezingTime()),
        micros(stats.getFrozenTime()),
        micros(stats.getMemdumpTime()),
        micros(stats.getMemwriteTime()),
        pages * Libc.PAGE_BYTES);
  }

  private static Duration micros(int unsigned) {
    return Duration.of(Integer.toUnsignedLong(unsigned), ChronoUnit.MICROS);
  }

  /** Reads images, with their statistics if these are in the same directory. */
  public static DumpedTree describe(Path images) {
    boolean known = Files.exists(images.resolve(StatsFile.DUMP));
    return new TreeReader(images).read(Libc.PAGE_BYTES, known ? read(images) : null);
  }
}
