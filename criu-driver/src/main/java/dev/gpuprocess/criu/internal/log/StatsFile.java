package dev.gpuprocess.criu.internal.log;

import dev.gpuprocess.criu.proto.Stats.stats_entry;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** Reads {@code stats-dump} and {@code stats-restore}: two magic numbers, a size, one message. */
public final class StatsFile {

  public static final String DUMP = "stats-dump";
  public static final String RESTORE = "stats-restore";

  private static final int SERVICE_MAGIC = 0x55105940;
  private static final int STATS_MAGIC = 0x57093306;

  private StatsFile() {}

  public static stats_entry read(Path file) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
    if (bytes.remaining() < 12
        || bytes.getInt() != SERVICE_MAGIC
        || bytes.getInt() != STATS_MAGIC
        || bytes.getInt() != bytes.remaining()) {
      throw new IOException(file + " is not a CRIU statistics file");
    }
    return stats_entry.parseFrom(bytes);
  }
}
