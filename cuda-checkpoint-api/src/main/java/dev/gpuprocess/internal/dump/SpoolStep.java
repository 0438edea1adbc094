package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.internal.call.BoundedDiskTask;
import dev.gpuprocess.internal.handover.CopyLimit;
import dev.gpuprocess.internal.handover.Spool;
import dev.gpuprocess.internal.handover.SpoolRoom;
import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.store.StagedImage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The way of a process's memory through a spool: during the pause of a snapshot it goes no further,
 * and to the disk when the process runs again. For one thread.
 */
final class SpoolStep {

  private final int pid;
  private final @Nullable Path place;
  private @Nullable Spool spool;
  private String note = "";

  /**
   * Prepares; nothing is made yet.
   *
   * @param place where spools are made; null for none
   */
  SpoolStep(int pid, @Nullable Path place) {
    this.pid = pid;
    this.place = place;
  }

  /**
   * Makes a spool where that is wanted and possible, and there is a disk that it is faster than.
   *
   * @param bytes the memory that it is for
   * @return where the memory goes; empty when it goes into the image at once
   */
  Optional<Path> make(StagedImage image, BoundedDiskTask disk, long bytes) {
    if (place == null || disk.run("look at", image::isInMemory, late -> image.close())) {
      return Optional.empty();
    }
    Spool.removeAbandoned(place);
    Optional<String> obstacle = SpoolRoom.obstacle(place, pid, bytes);
    if (obstacle.isPresent()) {
      note = "not by way of memory: " + obstacle.get();
      return Optional.empty();
    }
    try {
      Spool made = Spool.make(place);
      spool = made;
      note = "by way of " + place;
      return Optional.of(made.memoryDirectory());
    } catch (IOException e) {
      note = "not by way of memory: " + e.getMessage();
      return Optional.empty();
    }
  }

  /** Which way the memory goes, and why not the faster one; empty for a dump. */
  String note() {
    return note;
  }

  /** Whether there is one, whose memory is not in the image yet. */
  boolean isUsed() {
    return spool != null;
  }

  /** What a failure to write to it is thrown as. */
  GpuCheckpointException failed(IOException e) {
    Failure failure = Failure.of("snapshot", pid);
    String why =
        "the memory of process %s could not be copied to %s: %s"
            .formatted(pid, place, e.getMessage());
    return Descriptors.saysFull(String.valueOf(e.getMessage()))
        ? new DiskFullException(
            why + ": free some memory, or take snapshots without a spool", failure, e)
        : new ImageException(why, failure, e);
  }

  /** Takes its name away, as CRIU has seen it. */
  void hide() {
    if (spool != null) {
      spool.hide();
    }
  }

  /** Holds on to it, now that it is complete: what may fail is to fail before CRIU begins. */
  void keep() throws IOException {
    if (spool != null) {
      spool.keep();
    }
  }

  /** Copies it into the image, on the disk, and adds it there. */
  void write(StagedImage image, ImageFile file, CopyLimit limit) {
    Spool from = spool;
    if (from != null) {
      try {
        from.copyTo(image.makeMemoryDirectory(), file.bytes(), limit);
      } catch (IOException e) {
        throw image.incomplete(e);
      }
      image.addMemory(file);
    }
  }

  /** Removes it. Does nothing the second time. */
  void close() {
    if (spool != null) {
      spool.close();
      spool = null;
    }
  }
}
