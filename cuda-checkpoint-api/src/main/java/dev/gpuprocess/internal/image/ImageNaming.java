package dev.gpuprocess.internal.image;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.Locale;
import java.util.Map;

/**
 * Chooses names and times for the new images of a directory. The order of names and times is the
 * order in which the images are made, even if the clock goes back. Safe for use by several threads
 * and JVMs.
 */
public final class ImageNaming {

  private static final DateTimeFormatter NAME =
      DateTimeFormatter.ofPattern("uuuuMMdd-HHmmss-SSS", Locale.ROOT).withZone(ZoneOffset.UTC);
  private static final Instant LATEST = Instant.parse("9999-12-31T00:00:00Z");
  private static final Duration STEP = Duration.ofMillis(1);
  private static final String VERB = "name an image";

  private final StoreDirectory store;
  private final StateDirectory state;
  private final InstantSource clock;
  private final Duration patience;

  /**
   * Prepares the naming of images.
   *
   * @param patience the wait for other controllers that name an image there
   */
  public ImageNaming(
      StoreDirectory store, StateDirectory state, InstantSource clock, Duration patience) {
    this.store = store;
    this.state = state;
    this.clock = clock;
    this.patience = patience;
  }

  /**
   * A unique name.
   *
   * @param directory the directory of the image
   * @param created the time for its manifest, later than that of all images in the store
   */
  public record Place(Path directory, Instant created) {}

  /**
   * Chooses the next name.
   *
   * @param pid the process of the image
   * @throws ImageException with reason DIRECTORY when the directory does not exist or cannot be
   *     read, or the time of the newest image in it is too late
   * @throws dev.gpuprocess.internal.state.StateDirectoryException when the state directory cannot
   *     be used
   */
  public Place next(int pid) {
    if (!Files.isDirectory(store.path())) {
      throw unusable(
          pid,
          "the directory of images %s no longer exists: create it, or mount its file system"
              .formatted(store.path()));
    }
    store.requireNoImage(VERB, pid);
    try (NamedLock lock = lock(pid)) {
      StoreDirectory.Content content = store.read();
      Instant created = clock.instant().truncatedTo(ChronoUnit.MILLIS);
      if (!content.images().isEmpty()) {
        created = later(created, content.images().get(0).manifest().created());
      }
      if (content.isBeingWritten()) {
        // An image that is being written has a name that it does not bear yet.
        created = later(created, last(lock));
      }
      Place place = place(created, pid);
      while (content.has(place.directory())) {
        place = place(place.created().plus(STEP), pid);
      }
      lock.note(place.created().toString());
      return place;
    } catch (IOException e) {
      throw state.unusable(e, VERB, pid);
    }
  }

  private NamedLock lock(int pid) throws IOException {
    Map<String, Object> which = Files.readAttributes(store.path(), "unix:dev,ino");
    String name = "images-%s-%s".formatted(which.get("dev"), which.get("ino"));
    return state
        .lock(name, VERB, patience)
        .orElseThrow(
            () ->
                unusable(
                    pid,
                    "no image can be named in %s, because %s holds its lock: find out what it waits for"
                        .formatted(store.path(), state.describeHolder(name))));
  }

  private static Instant last(NamedLock lock) {
    try {
      return lock.note().isEmpty() ? Instant.EPOCH : Instant.parse(lock.note());
    } catch (DateTimeException nonsense) {
      return Instant.EPOCH;
    }
  }

  private static Instant later(Instant now, Instant other) {
    if (other.isAfter(LATEST)) {
      return other;
    }
    Instant next = other.truncatedTo(ChronoUnit.MILLIS).plus(STEP);
    return next.isAfter(now) ? next : now;
  }

  private Place place(Instant created, int pid) {
    if (created.isAfter(LATEST)) {
      throw unusable(
          pid,
          "the newest image in %s was made at %s, after which no image can be named: set the clock, and move that image away"
              .formatted(store.path(), created));
    }
    String name = "%s-%s".formatted(NAME.format(created), Integer.toString(pid));
    return new Place(store.path().resolve(name), created);
  }

  private static ImageException unusable(int pid, String why) {
    return new ImageException(
        ImageException.Reason.DIRECTORY, why, Failure.of("snapshot", pid), null);
  }
}
