package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.DiskFullException;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.image.ImageFile;
import dev.gpuprocess.internal.handover.CopyLimit;
import dev.gpuprocess.internal.handover.Spool;
import dev.gpuprocess.internal.os.Descriptors;
import dev.gpuprocess.internal.store.StagedImage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The way of one process's memory through a spool: during the pause of a snapshot it goes no
 * further, and to the disk when the process runs again. For one thread.
 */
final class SpoolStep {

  private final int pid;
  private final int number;
  private @Nullable Path place;
  private @Nullable Spool spool;
  private String note = "";

  /**
   * Prepares; nothing is made yet.
   *
   * @param number that of the process among those of the image
   */
  SpoolStep(int pid, int number) {
    this.pid = pid;
    this.number = number;
  }

  /**
   * Makes a spool where that was chosen.
   *
   * @return where the memory goes; empty when it goes into the image at once
   */
  Optional<Path> make(SpoolChoice choice) {
    note = choice.note();
    place = choice.place();
    if (place == null) {
      return Optional.empty();
    }
    try {
      Spool made = Spool.make(place, number);
      spool = made;
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
