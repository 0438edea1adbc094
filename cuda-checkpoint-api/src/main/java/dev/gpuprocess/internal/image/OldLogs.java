package dev.gpuprocess.internal.image;

import dev.gpuprocess.internal.linux.DirectoryMaker;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.Ownership;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The log directories among the temporary files. A directory that an exception has named stays for
 * an hour, the newest hundred of them for a day, and the newest ten longer, so that repeated
 * failures do not fill the disk. Other directories belong to a call under way or to a dead JVM.
 */
final class OldLogs {

  private static final Logger LOG = LoggerFactory.getLogger(OldLogs.class);

  private static final int NEWEST = 10;
  private static final int OF_A_DAY = 100;
  private static final Duration DAY = Duration.ofDays(1);

  /** The time for an operator to read a log, and for a recovery to use the logs of a dead JVM. */
  private static final Duration HOUR = Duration.ofHours(1);

  /** A directory and the time when an exception named it; other JVMs may remove directories. */
  private record Named(Path directory, Instant time) {}

  private final Path temporary;

  OldLogs(Path temporary) {
    this.temporary = temporary;
  }

  /** Removes outdated directories, and those that dead JVMs left more than an hour ago. */
  void removeOutdated() {
    try {
      List<Named> named = new ArrayList<>();
      for (Path directory : DurableFiles.list(temporary)) {
        Optional<DirectoryMaker> maker =
            DirectoryMaker.ofTemporary(String.valueOf(directory.getFileName()));
        if (maker.isPresent() && isOurs(directory)) {
          if (Files.exists(directory.resolve(LogDirectory.KEPT))) {
            named.add(new Named(directory, time(directory.resolve(LogDirectory.KEPT))));
          } else if (maker.get().hasEnded() && isPast(time(directory), HOUR)) {
            new LogDirectory(directory).delete();
          }
        }
      }
      named.sort(Comparator.comparing(Named::time).reversed());
      for (int newer = NEWEST; newer < named.size(); newer++) {
        if (isPast(named.get(newer).time(), newer < OF_A_DAY ? DAY : HOUR)) {
          new LogDirectory(named.get(newer).directory()).delete();
        }
      }
    } catch (IOException e) {
      // The next dump or restore tries again.
      LOG.warn("old logs in {} stay: {}", temporary, e.toString());
    }
  }

  /** Checks the owner, because other users can give their directories such names. */
  private static boolean isOurs(Path directory) throws IOException {
    Optional<Ownership> owner = Ownership.ofDirectory(directory);
    return owner.isPresent() && owner.get().isOursToRemove();
  }

  private static boolean isPast(Instant time, Duration age) {
    return time.plus(age).compareTo(Instant.now()) <= 0;
  }

  private static Instant time(Path file) {
    try {
      return Files.getLastModifiedTime(file, LinkOption.NOFOLLOW_LINKS).toInstant();
    } catch (IOException removedMeanwhile) {
      return Instant.now();
    }
  }
}
