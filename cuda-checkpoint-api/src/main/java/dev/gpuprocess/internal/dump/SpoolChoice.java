package dev.gpuprocess.internal.dump;

import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.handover.Spool;
import dev.gpuprocess.internal.handover.SpoolRoom;
import dev.gpuprocess.internal.store.StagedImage;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Whether the memory of a dump goes by way of spools: that of all members, or of none.
 *
 * @param place where spools are made; null for none
 * @param note why, or why not; empty where nobody asked
 */
record SpoolChoice(@Nullable Path place, String note) {

  /** No spools, and nothing to be said about it. */
  private static final SpoolChoice NONE = new SpoolChoice(null, "");

  /**
   * Chooses spools where they are wanted and possible, and there is a disk that they are faster
   * than.
   *
   * @param wanted where spools are made; null for none
   * @param bytes the memory that they are for, by pid
   */
  static SpoolChoice of(
      @Nullable Path wanted, StagedImage image, BoundedDiskTask disk, Map<Integer, Long> bytes) {
    if (wanted == null
        || bytes.isEmpty()
        || disk.run("look at", image::isInMemory, late -> image.close())) {
      return NONE;
    }
    Spool.removeAbandoned(wanted);
    Optional<String> obstacle = SpoolRoom.obstacle(wanted, bytes);
    return obstacle.isPresent()
        ? new SpoolChoice(null, "not by way of memory: " + obstacle.get())
        : new SpoolChoice(wanted, "by way of " + wanted);
  }
}
