package dev.gpuprocess.options;

import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The host memory that takes the GPU memory of suspended processes: files without a name on a
 * tmpfs. Immutable.
 *
 * <p>The driver moves GPU memory into host memory that it maps for that. This gives it memory that
 * is there already, in huge pages, made by several threads, which takes a tenth of the time; and
 * since the memory is a file, a dump need not copy it out of the process. The kernel charges it to
 * the control group of this JVM and not to that of the process. The kernel frees it when the
 * process has been resumed or has ended, even if this JVM was killed before.
 *
 * <p>If it is not available the driver maps its own memory, and the {@link
 * dev.gpuprocess.report.Step#note() note} of the step says why.
 */
public final class HostMemory {

  private enum Place {
    AUTOMATIC,
    DIRECTORY,
    NONE
  }

  private static final HostMemory AUTOMATIC = new HostMemory(Place.AUTOMATIC, null, 0);
  private static final HostMemory NONE = new HostMemory(Place.NONE, null, 0);

  private final Place place;
  private final @Nullable Path directory;
  private final long ready;

  private HostMemory(Place place, @Nullable Path directory, long ready) {
    this.place = place;
    this.directory = directory;
    this.ready = ready;
  }

  /**
   * On a tmpfs of huge pages that the library mounts at {@code /run/gpuprocess/memory} when it is
   * first needed, if it may; it is empty while no process is suspended. Where it may not mount, on
   * {@code /dev/shm} if that has huge pages.
   *
   * @return the default
   */
  public static HostMemory automatic() {
    return AUTOMATIC;
  }

  /**
   * On a tmpfs of the caller, best mounted with {@code huge=always}: in pages of 4 KiB it is slower
   * than memory that the driver maps.
   *
   * @param directory on a tmpfs, which no other user can write to
   * @return the setting
   */
  public static HostMemory in(Path directory) {
    return new HostMemory(Place.DIRECTORY, directory.toAbsolutePath(), 0);
  }

  /**
   * Leaves it to the driver, which maps memory of the process.
   *
   * @return the setting
   */
  public static HostMemory none() {
    return NONE;
  }

  /**
   * Keeps memory ready, so that a suspend need not make it, which takes about 0.4 s for 16 GiB. It
   * is made in the background, is used by the next process that is suspended, and is made again
   * after that.
   *
   * @param bytes how much; 0, the default, for none
   * @return the same with that
   * @throws IllegalArgumentException when it is negative, or there is no place for it
   */
  public HostMemory ready(long bytes) {
    if (bytes < 0 || place == Place.NONE) {
      throw new IllegalArgumentException("cannot keep " + bytes + " bytes ready");
    }
    return new HostMemory(place, directory, bytes);
  }

  /**
   * Where it is.
   *
   * @return empty when the library chooses, and for none()
   */
  public Optional<Path> directory() {
    return Optional.ofNullable(directory);
  }

  /**
   * Whether there is any.
   *
   * @return false for {@link #none}
   */
  public boolean isUsed() {
    return place != Place.NONE;
  }

  /**
   * How much is kept ready.
   *
   * @return bytes
   */
  public long ready() {
    return ready;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof HostMemory same
        && place == same.place
        && Objects.equals(directory, same.directory)
        && ready == same.ready;
  }

  @Override
  public int hashCode() {
    return Objects.hash(place, directory, ready);
  }

  @Override
  public String toString() {
    return switch (place) {
          case AUTOMATIC -> "automatic";
          case DIRECTORY -> "in " + directory;
          case NONE -> "none";
        }
        + (ready > 0 ? ", %s bytes ready".formatted(ready) : "");
  }
}
