package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.criu.proto.Stats.dump_stats_entry;
import dev.gpuprocess.criu.proto.Stats.restore_stats_entry;
import dev.gpuprocess.criu.proto.Stats.stats_entry;
import dev.gpuprocess.image.DumpReport;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.report.ProcessIdentity;
import dev.gpuprocess.spi.RestoreReport;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * CRIU's statistics of a dump or a restore: two magic numbers, a size, one message. Without such a
 * file they are zero, since a dump or restore is good without them.
 */
public final class Statistics {

  public static final String OF_DUMP = "stats-dump";
  public static final String OF_RESTORE = "stats-restore";

  private static final Logger LOG = LoggerFactory.getLogger(Statistics.class);

  private static final int SERVICE_MAGIC = 0x55105940;
  private static final int STATS_MAGIC = 0x57093306;

  private Statistics() {}

  /** Reads the statistics of a dump in its work directory. */
  public static DumpReport dump(Path work) {
    dump_stats_entry stats = read(work.resolve(OF_DUMP)).getDump();
    long pages = stats.getPagesWritten() + stats.getShpagesWritten();
    return new DumpReport(
        micros(stats.getFreezingTime()),
        micros(stats.getFrozenTime()),
        micros(stats.getMemdumpTime()),
        micros(stats.getMemwriteTime()),
        pages * Libc.PAGE_BYTES);
  }

  /**
   * Reads the statistics of a restore in its work directory.
   *
   * @param terminalLog the file with the output of a new terminal; null without one
   */
  public static RestoreReport restore(Path work, ProcessIdentity root, @Nullable Path terminalLog) {
    restore_stats_entry stats = read(work.resolve(OF_RESTORE)).getRestore();
    return new RestoreReport(
        root,
        micros(stats.getForkingTime()),
        micros(stats.getRestoreTime()),
        stats.getPagesRestored() * Libc.PAGE_BYTES,
        terminalLog);
  }

  private static stats_entry read(Path file) {
    try {
      ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
      if (bytes.remaining() < 12
          || bytes.getInt() != SERVICE_MAGIC
          || bytes.getInt() != STATS_MAGIC
          || bytes.getInt() != bytes.remaining()) {
        throw new IOException(file + " is not a CRIU statistics file");
      }
      return stats_entry.parseFrom(bytes);
    } catch (IOException e) {
      LOG.debug("no statistics in {}", file, e);
      return stats_entry.getDefaultInstance();
    }
  }

  private static Duration micros(int unsigned) {
    return Duration.of(Integer.toUnsignedLong(unsigned), ChronoUnit.MICROS);
  }
}
