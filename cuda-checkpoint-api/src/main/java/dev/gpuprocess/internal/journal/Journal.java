package dev.gpuprocess.internal.journal;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.StateDirectoryException;
import dev.gpuprocess.internal.lock.HeldLock;
import dev.gpuprocess.internal.lock.LockHolder;
import dev.gpuprocess.internal.lock.StateDirectory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One small file for each process that is not running because of us, so that {@link
 * GpuCheckpoints#recover()} finds it when we are dead. It lives where files do not outlive a
 * reboot: the processes do not either.
 */
public final class Journal {

  private static final Logger LOG = LoggerFactory.getLogger(Journal.class);

  private static final String LOCK = "recovery";
  private static final String SUFFIX = ".process";
  private static final String HALF = ".half";
  private static final String ASIDE = ".unread";
  private static final Pattern HALF_OF = Pattern.compile(".*\\.process\\.([\\d-]+)\\.half");

  private final StateDirectory state;

  public Journal(StateDirectory state) {
    this.state = state;
  }

  /**
   * Says what is about to be done.
   *
   * @throws StateDirectoryException when it cannot be written
   */
  public void write(JournalEntry entry) {
    Path file = file(entry.key());
    Path half =
        state
            .path()
            .resolve("%s.%s%s".formatted(file.getFileName(), ProcessKey.self().text(), HALF));
    try {
      state.make();
      StateDirectory.writeNew(half, entry.text());
      Files.move(half, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      removeOwnHalf(half);
      throw state.unusable(e, entry.step(), entry.pid());
    }
  }

  /** What was made before it could not be written, for want of descriptors or room. */
  private static void removeOwnHalf(Path half) {
    try {
      Files.deleteIfExists(half);
    } catch (IOException e) {
      LOG.debug("{} is not removed", half, e);
    }
  }

  /** Says what a process has come to. The entry that is there already would do for a recovery. */
  public void update(JournalEntry entry) {
    try {
      write(entry);
    } catch (StateDirectoryException e) {
      LOG.warn(
          "process {} is {}, which the journal does not say: {}",
          entry.pid(),
          entry.step(),
          e.getMessage());
    }
  }

  /**
   * Says that CRIU is about to bring a process back.
   *
   * @return the entry's key, under which it is removed
   */
  public ProcessKey writeRestore(int pid, Holdings held, Path image, Path log) {
    ProcessKey notBefore = new ProcessKey(ProcessKey.self().namespace(), pid, ProcFs.ticksNow());
    write(JournalEntry.of(notBefore, pid, JournalEntry.RESTORING, held, image, log));
    return notBefore;
  }

  /** The process runs, or is gone: nothing is left to mend. */
  public void remove(ProcessKey process) {
    try {
      if (state.exists()) {
        Files.deleteIfExists(file(process));
      }
    } catch (IOException e) {
      // recover() will find that there is nothing to do.
      LOG.warn("{} could not be removed: {}", file(process), e.toString());
    }
  }

  /**
   * CRIU has ended its restore. A process that it brought back within a tick of the clock has the
   * key under which the restore was written down, and its own entry is in that place; it stays.
   *
   * @param restore what {@link #writeRestore} returned
   */
  public void removeRestore(ProcessKey restore) {
    if (ownEntry(restore).isEmpty()) {
      remove(restore);
    }
  }

  /** What is written of a process itself, and not of a restore that may have brought it back. */
  public Optional<JournalEntry> ownEntry(ProcessKey process) {
    return find(process).filter(entry -> !entry.isImageRestore());
  }

  /** What is written of a process; empty also where the state directory cannot be believed. */
  public Optional<JournalEntry> find(ProcessKey process) {
    try {
      return state.exists()
          ? read(file(process)).filter(entry -> entry.key().equals(process) && entry.isOfThisBoot())
          : Optional.empty();
    } catch (IOException e) {
      LOG.warn("the journal in {} is not believed: {}", state.path(), state.explain(e));
      return Optional.empty();
    }
  }

  /** What is written of a process. */
  public Optional<JournalEntry> find(ProcessIdentity process) {
    return find(ProcessKey.of(process));
  }

  public List<JournalEntry> entries() {
    List<JournalEntry> entries = new ArrayList<>();
    for (Path file : list(SUFFIX)) {
      read(file)
          .filter(entry -> file(entry.key()).getFileName().equals(file.getFileName()))
          .ifPresent(entries::add);
    }
    return entries;
  }

  /**
   * Puts aside what is no entry, or is one of another process than its name says. What cannot be
   * read now, as when too many files are open, stays.
   */
  public void putAsideWhatIsNoEntry() {
    for (Path file : list(SUFFIX)) {
      try {
        if (!isEntry(file)) {
          Path aside = file.resolveSibling(file.getFileName() + ASIDE);
          LOG.warn("{} is not the journal entry that its name says; it is {} now", file, aside);
          Files.move(file, aside, StandardCopyOption.REPLACE_EXISTING);
        }
      } catch (NoSuchFileException goneMeanwhile) {
        LOG.debug("{} is gone", file);
      } catch (IOException e) {
        throw unreadable(e);
      }
    }
  }

  private boolean isEntry(Path file) throws IOException {
    if (!StateDirectory.isSmallFile(file)) {
      return false;
    }
    try {
      return file.equals(file(JournalEntry.parse(StateDirectory.read(file)).key()));
    } catch (IllegalArgumentException | CharacterCodingException nonsense) {
      return false;
    }
  }

  /** Removes what controllers were writing when they died. */
  public void removeHalves() {
    for (Path file : list(HALF)) {
      Matcher name = HALF_OF.matcher(file.getFileName().toString());
      if (name.matches() && writerHasEnded(name.group(1))) {
        try {
          Files.deleteIfExists(file);
        } catch (IOException e) {
          throw unreadable(e);
        }
      }
    }
  }

  private static boolean writerHasEnded(String writer) {
    try {
      return ProcessKey.parse(writer).hasEnded();
    } catch (IllegalArgumentException notOurs) {
      return false;
    }
  }

  private List<Path> list(String suffix) {
    List<Path> found = new ArrayList<>();
    try {
      if (state.exists()) {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(state.path(), "*" + suffix)) {
          files.forEach(found::add);
        }
      }
    } catch (NoSuchFileException nothingYet) {
      return found;
    } catch (DirectoryIteratorException e) {
      throw unreadable(new IOException(e.getCause()));
    } catch (IOException e) {
      throw unreadable(e);
    }
    return found;
  }

  /**
   * Lets one recovery run at a time, over all controllers of this machine.
   *
   * @throws OperationTimedOutException when another one does not end in time
   */
  public <T> T alone(Duration patience, Supplier<T> body) {
    try {
      if (!state.exists()) {
        return body.get();
      }
      Optional<HeldLock> lock = state.lock(LOCK, "recover", patience);
      if (lock.isEmpty()) {
        throw new OperationTimedOutException(
            "another recovery with the journal in %s does not end (%s): look at what it waits for"
                .formatted(
                    state.path(),
                    state.holder(LOCK).map(LockHolder::toString).orElse("it is not known whose")),
            Failure.of("recover", 0));
      }
      try (HeldLock held = lock.get()) {
        LOG.debug("recovering alone, after {}", held.note());
        return body.get();
      }
    } catch (IOException e) {
      throw unreadable(e);
    }
  }

  private StateDirectoryException unreadable(IOException e) {
    return new StateDirectoryException(
        "the journal in %s cannot be read (%s): mend that, or name another directory in GPUPROCESS_STATE_DIR"
            .formatted(state.path(), state.explain(e)),
        Failure.of("recover", 0),
        e);
  }

  private static Optional<JournalEntry> read(Path file) {
    try {
      return Optional.of(JournalEntry.parse(StateDirectory.read(file)));
    } catch (NoSuchFileException none) {
      return Optional.empty();
    } catch (IOException | IllegalArgumentException e) {
      LOG.warn(
          "{} is not a journal entry: {}",
          Printable.of(file.toString()),
          Printable.of(e.toString()));
      return Optional.empty();
    }
  }

  private Path file(ProcessKey process) {
    return state.path().resolve(process.text() + SUFFIX);
  }
}
