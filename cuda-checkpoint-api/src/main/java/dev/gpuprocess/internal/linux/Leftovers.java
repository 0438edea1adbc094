package dev.gpuprocess.internal.linux;

import dev.gpuprocess.internal.time.Durations;
import dev.gpuprocess.internal.time.IoAction;
import dev.gpuprocess.internal.time.Threads;
import dev.gpuprocess.internal.time.Uninterrupted;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Directories that this JVM made in one place and could not remove, for example because too many
 * files were open or the file system was read-only. A daemon thread tries again, soon and then less
 * often, until they are gone. Each place has its own thread, so a disk that hangs delays only its
 * own leftovers. Safe for use by several threads.
 */
public final class Leftovers {

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final Duration FIRST_PAUSE = Duration.ofSeconds(1);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(30);

  /** The leftovers by the directory above them. */
  private static final Map<Path, Leftovers> PLACES = new ConcurrentHashMap<>();

  private final Path place;
  private final Map<String, IoAction> directories = new ConcurrentHashMap<>();

  /** Removals that follow the last of the directories. */
  private final Map<String, IoAction> afterwards = new ConcurrentHashMap<>();

  /** Written only while the place is locked in {@link #PLACES}. */
  private boolean isRetried;

  private Leftovers(Path place) {
    this.place = place;
  }

  /**
   * Registers a directory of this JVM that could not be removed, to be removed later. Does not
   * block.
   *
   * @param directory has a unique name
   * @param removal removes it, and does nothing if it is gone
   */
  public static void add(Path directory, IoAction removal) {
    Path absolute = directory.toAbsolutePath();
    String name = absolute.getFileName().toString();
    change(
        Objects.requireNonNull(absolute.getParent()), left -> left.directories.put(name, removal));
  }

  /**
   * Removes something that must outlive the directories left in a place: now if there are none,
   * otherwise after the last of them.
   *
   * @param place the directory above them
   * @param what the name of the removed thing, for the log
   * @param removal does nothing if it is gone
   */
  public static void removeAfter(Path place, String what, IoAction removal) {
    Path absolute = place.toAbsolutePath();
    Leftovers known = PLACES.get(absolute);
    if (known == null || known.directories.isEmpty()) {
      try {
        removal.run();
        return;
      } catch (IOException e) {
        LOG.warn("{} could not be removed: {}", what, e.toString());
      }
    }
    change(absolute, left -> left.afterwards.put(what, removal));
  }

  private static void change(Path place, Consumer<Leftovers> change) {
    Leftovers unused =
        PLACES.compute(
            place,
            (same, known) -> {
              Leftovers left = known == null ? new Leftovers(place) : known;
              change.accept(left);
              left.start();
              return left;
            });
  }

  private void start() {
    if (isRetried) {
      return;
    }
    try {
      Threads.daemon("gpuprocess leftovers in " + place, this::retry).start();
      isRetried = true;
    } catch (OutOfMemoryError noThread) {
      LOG.warn(
          "no thread can be started: the next dump to {}, or a recovery, removes what is left",
          place);
    }
  }

  private void retry() {
    Duration pause = FIRST_PAUSE;
    do {
      Uninterrupted.pause(pause.toNanos());
      remove();
      pause = Durations.min(pause.multipliedBy(2), LONGEST_PAUSE);
    } while (this.equals(PLACES.get(place)));
  }

  /** Returns the directories in which something is left. */
  public static Set<Path> places() {
    return Set.copyOf(PLACES.keySet());
  }

  /** Returns whether a directory of this name could not be removed and still exists. */
  public static boolean contain(Path directory) {
    String name = String.valueOf(directory.getFileName());
    return PLACES.values().stream().anyMatch(left -> left.directories.containsKey(name));
  }

  /** Removes the leftovers of this JVM in a place, as far as that is possible now. */
  public static void removeIn(Path place) {
    PLACES.values().stream().filter(left -> left.isIn(place)).forEach(Leftovers::remove);
  }

  /** Returns whether this place is a directory; the path may be another path of it. */
  private boolean isIn(Path other) {
    return place.equals(other.toAbsolutePath())
        || directories.keySet().stream()
            .anyMatch(name -> Files.exists(other.resolve(name), LinkOption.NOFOLLOW_LINKS));
  }

  /** Synchronized because a directory that is half removed may look removed to another thread. */
  private synchronized void remove() {
    remove(directories, directories);
    // Copied first: an entry added from now on may belong to a directory that is added as well.
    Map<String, IoAction> due = Map.copyOf(afterwards);
    if (directories.isEmpty()) {
      remove(due, afterwards);
    }
    Leftovers unused =
        PLACES.computeIfPresent(
            place,
            (same, left) -> left.directories.isEmpty() && left.afterwards.isEmpty() ? null : left);
  }

  private void remove(Map<String, IoAction> due, Map<String, IoAction> from) {
    due.forEach(
        (name, removal) -> {
          try {
            removal.run();
            from.remove(name);
            LOG.info("{} was removed", place.resolve(name));
          } catch (IOException | RuntimeException | Error e) {
            LOG.debug("{} still cannot be removed", place.resolve(name), e);
          }
        });
  }
}
