package dev.gpuprocess;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.GpuCheckpointException;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.Durations;
import dev.gpuprocess.proc.ProcFs;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One small file for each process that is not running because of us, so that {@link
 * GpuCheckpoints#recover()} finds it when we are dead. It lives where files do not outlive a
 * reboot: the processes do not either.
 */
final class Journal {

  private static final Logger LOG = LoggerFactory.getLogger(Journal.class);

  private static final long POLL_NANOS = 5_000_000;
  private static final String NAMELESS = "?"; // so says the JDK
  private static final String SUFFIX = ".process";
  private static final String HALF = ".half";
  private static final Pattern HALF_OF = Pattern.compile(".*\\.(\\d{1,9})-(\\d{1,18})\\.half");

  private final Path directory;
  private final ProcessIdentity self;

  Journal(Path directory) {
    this.directory = directory;
    this.self = ProcessIdentity.of(ProcessHandle.current().pid()).orElseThrow();
  }

  /** Where every controller on this machine that runs as this user keeps its entries. */
  static Path standardDirectory() {
    String named =
        System.getProperty("gpuprocess.state.dir", System.getenv("GPUPROCESS_STATE_DIR"));
    if (named != null && !named.isBlank()) {
      return Path.of(named).toAbsolutePath();
    }
    Path run = Path.of("/run");
    return Files.isWritable(run)
        ? run.resolve("gpuprocess")
        : Path.of(System.getProperty("java.io.tmpdir"), "gpuprocess-" + user());
  }

  /** Not every user has a name, as in a container that is given any number. */
  private static String user() {
    String name = System.getProperty("user.name");
    return name.equals(NAMELESS)
        ? ProcFs.status(ProcessHandle.current().pid()).getOrDefault("Uid", name).split("\\s+")[0]
        : name;
  }

  /** Says what is about to be done. */
  void write(
      ProcessIdentity target,
      String step,
      Holdings held,
      @Nullable Path image,
      @Nullable Path log) {
    write(new JournalEntry(target, self, step, held, image, log));
  }

  /** Says what a process has come to. The entry that is there already would do for a recovery. */
  void update(ProcessIdentity target, String step, Holdings held) {
    try {
      write(target, step, held, null, null);
    } catch (GpuCheckpointException e) {
      LOG.warn(
          "process {} is {}, which the journal does not say: {}",
          target.pid(),
          step,
          e.getMessage());
    }
  }

  /**
   * Says that CRIU is about to bring a process back.
   *
   * @return the entry's target, under which it is removed
   */
  ProcessIdentity writeRestore(int pid, Holdings held, Path image, Path log) {
    ProcessIdentity notBefore = new ProcessIdentity(pid, ProcFs.ticksNow());
    write(new JournalEntry(notBefore, self, JournalEntry.RESTORING, held, image, log));
    return notBefore;
  }

  void write(JournalEntry entry) {
    Path file = file(entry.target());
    Path half =
        directory.resolve(
            "%s.%d-%d%s".formatted(file.getFileName(), self.pid(), self.startTicks(), HALF));
    try {
      LockFile.makeDirectory(directory);
      Files.writeString(half, entry.text());
      Files.move(half, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new GpuCheckpointException(
          "the journal in %s cannot be written (%s): make room there or name another directory in GPUPROCESS_STATE_DIR; process %d was not touched"
              .formatted(directory, e, entry.target().pid()),
          Failure.of(entry.step(), entry.target().pid()),
          e);
    }
  }

  /** The process runs, or is gone: nothing is left to mend. */
  void remove(ProcessIdentity target) {
    try {
      Files.deleteIfExists(file(target));
    } catch (IOException e) {
      // recover() will find that there is nothing to do.
      LOG.warn("{} could not be removed: {}", file(target), e.toString());
    }
  }

  Optional<JournalEntry> find(ProcessIdentity target) {
    return read(file(target));
  }

  List<JournalEntry> entries() {
    List<JournalEntry> entries = new ArrayList<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*" + SUFFIX)) {
      files.forEach(file -> read(file).ifPresent(entries::add));
    } catch (NoSuchFileException nothingYet) {
      return entries;
    } catch (IOException e) {
      throw unreadable(e);
    }
    return entries;
  }

  /** Removes what controllers were writing when they died. */
  void removeHalves() {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*" + HALF)) {
      for (Path file : files) {
        Matcher name = HALF_OF.matcher(file.getFileName().toString());
        if (name.matches() && !writer(name).isAlive()) {
          Files.deleteIfExists(file);
        }
      }
    } catch (NoSuchFileException nothingYet) {
      LOG.debug("there is no journal in {}", directory);
    } catch (IOException e) {
      throw unreadable(e);
    }
  }

  private static ProcessIdentity writer(Matcher name) {
    return new ProcessIdentity(Integer.parseInt(name.group(1)), Long.parseLong(name.group(2)));
  }

  boolean isOurs(JournalEntry entry) {
    return entry.controller().equals(self);
  }

  /**
   * Lets one recovery run at a time, over all controllers of this machine.
   *
   * @throws OperationTimedOutException when another one does not end in time
   */
  <T> T alone(Duration patience, Supplier<T> body) {
    if (!Files.isDirectory(directory)) {
      return body.get();
    }
    try {
      LockFile.Lock lock = recovery(Durations.end(patience));
      try {
        return body.get();
      } finally {
        lock.release();
      }
    } catch (IOException e) {
      throw unreadable(e);
    }
  }

  private LockFile.Lock recovery(long end) throws IOException {
    while (true) {
      Optional<LockFile.Lock> lock = LockFile.tryLock(directory, LockFile.RECOVERY);
      if (lock.isPresent()) {
        return lock.get();
      }
      if (Durations.left(end) < 0) {
        OptionalInt other = LockFile.holder(directory, LockFile.RECOVERY);
        throw new OperationTimedOutException(
            "another recovery with the journal in %s does not end%s: look at what it waits for"
                .formatted(directory, other.isPresent() ? ", in process " + other.getAsInt() : ""),
            Failure.of("recover", 0));
      }
      LockSupport.parkNanos(POLL_NANOS);
    }
  }

  private GpuCheckpointException unreadable(IOException e) {
    return new GpuCheckpointException(
        "the journal in %s cannot be read: %s".formatted(directory, e),
        Failure.of("recover", 0),
        e);
  }

  private static Optional<JournalEntry> read(Path file) {
    try {
      return Optional.of(JournalEntry.parse(Files.readString(file)));
    } catch (NoSuchFileException none) {
      return Optional.empty();
    } catch (IOException | IllegalArgumentException e) {
      LOG.warn("{} is not a journal entry: {}", file, e.toString());
      return Optional.empty();
    }
  }

  private Path file(ProcessIdentity target) {
    return directory.resolve(target.pid() + "-" + target.startTicks() + SUFFIX);
  }
}
