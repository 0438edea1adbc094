package dev.gpuprocess.internal.journal;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.StateDirectoryException;
import dev.gpuprocess.internal.linux.SmallFile;
import dev.gpuprocess.internal.lock.NamedLock;
import dev.gpuprocess.internal.lock.StateDirectory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.process.ProcessKey;
import dev.gpuprocess.internal.room.Holdings;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.process.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Records each process that a controller has taken off its GPU, in a small file of its own, so that
 * {@code GpuCheckpoints.recover()} finds the process if the controller dies. The files need not
 * survive a reboot, as the processes do not either. Safe for use by several threads and JVMs.
 */
public final class Journal {

  private static final Logger LOG = LoggerFactory.getLogger(Journal.class);

  private static final String LOCK = "recovery";
  private static final String SUFFIX = ".process";
  private static final String JOB_SUFFIX = ".job";
  private static final String HALF = ".half";
  private static final String ASIDE = ".unread";

  /** In place of a start time: no machine runs so many ticks of the clock. */
  private static final long NO_START = 1L << 58;

  private static final Pattern HALF_OF = Pattern.compile(".*\\.(?:process|job)\\.([\\d-]+)\\.half");

  private final StateDirectory state;

  public Journal(StateDirectory state) {
    this.state = state;
  }

  /**
   * Writes an entry before an operation begins, replacing an older one of the process.
   *
   * @throws StateDirectoryException when it cannot be written
   */
  public void write(JournalEntry entry) {
    write(file(entry.key()), entry);
  }

  private void write(Path file, JournalEntry entry) {
    Path half =
        state
            .path()
            .resolve("%s.%s%s".formatted(file.getFileName(), ProcessKey.self().text(), HALF));
    try {
      state.make();
      state.files().run("write", () -> replace(file, half, text(entry)));
    } catch (IOException e) {
      throw state.unusable(e, entry.step(), entry.pid());
    }
  }

  /**
   * Where the memory went is of use, and can be done without: an entry has to be one that can be
   * read.
   */
  private static String text(JournalEntry entry) {
    String all = entry.text();
    return all.getBytes(StandardCharsets.UTF_8).length <= SmallFile.MAX_BYTES
        ? all
        : entry.in(List.of()).text();
  }

  private static void replace(Path file, Path half, String text) throws IOException {
    try {
      SmallFile.replace(half, text);
      Files.move(half, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Files.deleteIfExists(half);
    }
  }

  /**
   * Updates an entry. If that fails, a recovery can still use the older one.
   *
   * @return whether it is written; else the older one must stay
   */
  public boolean update(JournalEntry entry) {
    try {
      write(entry);
      return true;
    } catch (StateDirectoryException e) {
      LOG.warn(
          "process {} is {}, but the journal could not be updated: {}",
          entry.pid(),
          entry.step(),
          e.getMessage());
      return false;
    }
  }

  /**
   * Writes that CRIU is about to restore a process.
   *
   * @param held by the process
   * @return the key of the entry, to remove it by
   */
  public ProcessKey writeRestore(int pid, Holdings held, Path image, Path log) {
    ProcessKey notBefore = new ProcessKey(ProcessKey.self().namespace(), pid, ProcFs.ticksNow());
    write(JournalEntry.of(notBefore, pid, JournalEntry.RESTORING, held, image, log));
    return notBefore;
  }

  /**
   * Writes which pid the process of such an entry has got. If that fails a recovery does not find
   * the process, should we die in the middle of the restore.
   *
   * @param restore what {@link #writeRestore} returned
   */
  public void updateRestore(ProcessKey restore, int pid, Holdings held, Path image, Path log) {
    update(JournalEntry.of(restore, pid, JournalEntry.RESTORING, held, image, log));
  }

  /**
   * Writes that an image is being written, or removed, whose process runs on, so that a recovery
   * finds what is left of it. There can be several of one process. If that fails the next image
   * beside it finds it.
   *
   * @param log where CRIU's log is; null when there is none
   * @return to be closed when the image is complete or gone
   */
  public ImageEntry writeImage(int pid, Path image, @Nullable Path log) {
    long unlikeAnyStart = NO_START + ThreadLocalRandom.current().nextInt(Integer.MAX_VALUE);
    ProcessKey key = new ProcessKey(ProcessKey.self().namespace(), pid, unlikeAnyStart);
    update(JournalEntry.of(key, pid, JournalEntry.WRITING, Holdings.UNKNOWN, image, log));
    return new ImageEntry(this, image, file(key));
  }

  /**
   * Writes that a launched process is to end with this JVM, for a recovery if nothing ends it. If
   * that fails only the guard of the process ends it.
   */
  public void writeLaunch(ProcessIdentity root) {
    String step = JournalEntry.LAUNCHED;
    try {
      write(
          launchFile(root),
          JournalEntry.of(asSeenHere(root), root.pid(), step, Holdings.UNKNOWN, null, null));
    } catch (StateDirectoryException e) {
      LOG.warn("process {} is not in the journal: {}", root.pid(), e.getMessage());
    }
  }

  /** The file of the entry of a launched process, which its guard removes if this JVM is gone. */
  public Path launchFile(ProcessIdentity root) {
    return state.path().resolve(asSeenHere(root).text() + JOB_SUFFIX);
  }

  /** Unlike the process's own key it is the same once the process is gone. */
  private static ProcessKey asSeenHere(ProcessIdentity root) {
    return new ProcessKey(ProcessKey.self().namespace(), root.pid(), root.startTicks());
  }

  /**
   * Removes the entry of a launched process that has ended, or does not end with this JVM any more.
   *
   * @param entry what {@link #launchFile} returned
   */
  public void removeLaunch(Path entry) {
    remove(entry);
  }

  /**
   * The launched processes that are to end with their controllers, by the files of their entries.
   *
   * @throws StateDirectoryException when an entry cannot be read just now
   */
  public Map<Path, JournalEntry> launches() {
    Map<Path, JournalEntry> launches = new LinkedHashMap<>();
    for (Path file : list(JOB_SUFFIX)) {
      readNow(file)
          .filter(entry -> isNameOf(file, entry, JOB_SUFFIX))
          .ifPresent(entry -> launches.put(file, entry));
    }
    return launches;
  }

  private static boolean isNameOf(Path file, JournalEntry entry, String suffix) {
    return String.valueOf(file.getFileName()).equals(entry.key().text() + suffix);
  }

  /**
   * Removes the entry of a process that runs or is gone, so that there is nothing left to recover.
   */
  public void remove(ProcessKey process) {
    remove(file(process));
  }

  private void remove(Path file) {
    try {
      removeNow(file);
    } catch (IOException e) {
      // A recovery will find that there is nothing to do.
      LOG.warn("{} could not be removed: {}", file, e.toString());
    }
  }

  void removeNow(Path file) throws IOException {
    if (state.exists()) {
      state.files().run("remove", () -> Files.deleteIfExists(file));
    }
  }

  /**
   * CRIU has ended its restore. A process that it brought back within a tick of the clock has the
   * key under which the restore was written down, and its own entry is in that place; it stays. So
   * does an entry that cannot be read now, for a recovery.
   *
   * @param restore what {@link #writeRestore} returned
   */
  public void removeRestore(ProcessKey restore) {
    if (find(restore).filter(JournalEntry::isImageRestore).isPresent()) {
      remove(restore);
    }
  }

  /** What is written of a process itself, and not of a restore that may have brought it back. */
  public Optional<JournalEntry> ownEntry(ProcessKey process) {
    return find(process).filter(entry -> !entry.isImageRestore());
  }

  /** The entry of a process; also empty when the state directory cannot be trusted. */
  public Optional<JournalEntry> find(ProcessKey process) {
    try {
      return state.exists()
          ? read(file(process)).filter(entry -> entry.key().equals(process) && entry.isOfThisBoot())
          : Optional.empty();
    } catch (IOException e) {
      LOG.warn("the journal in {} is not used: {}", state.path(), state.explain(e));
      return Optional.empty();
    }
  }

  /** The entry of a process. */
  public Optional<JournalEntry> find(ProcessIdentity process) {
    return find(ProcessKey.of(process));
  }

  /**
   * All entries.
   *
   * @throws StateDirectoryException when one cannot be read just now: who mends a process must see
   *     all of its members
   */
  public List<JournalEntry> entries() {
    List<JournalEntry> entries = new ArrayList<>();
    for (Path file : list(SUFFIX)) {
      readNow(file).filter(entry -> isNameOf(file, entry, SUFFIX)).ifPresent(entries::add);
    }
    return entries;
  }

  /**
   * Returns the entries of processes that are not running. Empty where the state directory cannot
   * be used, since a process must come back without one.
   */
  public List<JournalEntry> entriesOfProcesses() {
    try {
      return entries().stream()
          .filter(entry -> !entry.isOfImage() && !entry.isImageRestore())
          .toList();
    } catch (StateDirectoryException e) {
      LOG.warn("the journal is not searched for members: {}", e.getMessage());
      return List.of();
    }
  }

  /**
   * Renames files that are not entries, or not entries of the process in their name. Files that
   * cannot be read now, say because too many files are open, stay.
   */
  public void quarantineInvalid() {
    quarantineInvalid(SUFFIX);
    quarantineInvalid(JOB_SUFFIX);
  }

  private void quarantineInvalid(String suffix) {
    for (Path file : list(suffix)) {
      try {
        if (!state.files().get("read", () -> isEntry(file, suffix))) {
          Path aside = file.resolveSibling(file.getFileName() + ASIDE);
          LOG.warn(
              "{} is not the journal entry that its name says, and is renamed to {}", file, aside);
          state
              .files()
              .run("rename", () -> Files.move(file, aside, StandardCopyOption.REPLACE_EXISTING));
        }
      } catch (NoSuchFileException goneMeanwhile) {
        LOG.debug("{} is gone", file);
      } catch (IOException e) {
        throw unreadable(e);
      }
    }
  }

  private static boolean isEntry(Path file, String suffix) throws IOException {
    if (!SmallFile.is(file)) {
      return false;
    }
    try {
      return isNameOf(file, JournalEntry.parse(SmallFile.read(file)), suffix);
    } catch (IllegalArgumentException | CharacterCodingException nonsense) {
      return false;
    }
  }

  /** Removes partial entries of controllers that died while they wrote them. */
  public void removePartial() {
    for (Path file : list(HALF)) {
      Matcher name = HALF_OF.matcher(file.getFileName().toString());
      if (name.matches() && writerHasEnded(name.group(1))) {
        try {
          state.files().run("remove", () -> Files.deleteIfExists(file));
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
    try {
      return state.exists() ? state.files().get("list", () -> files("*" + suffix)) : List.of();
    } catch (NoSuchFileException nothingYet) {
      return List.of();
    } catch (IOException e) {
      throw unreadable(e);
    }
  }

  private List<Path> files(String pattern) throws IOException {
    List<Path> found = new ArrayList<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(state.path(), pattern)) {
      files.forEach(found::add);
      return found;
    } catch (DirectoryIteratorException e) {
      throw e.getCause();
    }
  }

  /**
   * Runs one recovery at a time, across all controllers of this machine.
   *
   * @throws OperationTimedOutException when another one does not end in time
   */
  public <T> T alone(Duration patience, Supplier<T> body) {
    try {
      if (!state.exists()) {
        return body.get();
      }
      Optional<NamedLock> lock = state.lock(LOCK, "recover", patience);
      if (lock.isEmpty()) {
        throw new OperationTimedOutException(
            "another recovery with the journal in %s does not end (%s): find out what it waits for"
                .formatted(state.path(), state.describeHolder(LOCK)),
            Failure.of("recover", 0));
      }
      try (NamedLock held = lock.get()) {
        LOG.debug("recovering exclusively, after {}", held.note());
        return body.get();
      }
    } catch (IOException e) {
      throw unreadable(e);
    }
  }

  private StateDirectoryException unreadable(IOException e) {
    return new StateDirectoryException(
        "the journal in %s cannot be read (%s): fix that, or name another directory in GPUPROCESS_STATE_DIR"
            .formatted(state.path(), state.explain(e)),
        Failure.of("recover", 0),
        e);
  }

  private Optional<JournalEntry> readNow(Path file) {
    try {
      return parsed(file);
    } catch (IOException e) {
      throw unreadable(e);
    }
  }

  private Optional<JournalEntry> read(Path file) {
    try {
      return parsed(file);
    } catch (IOException e) {
      warn(file, e);
      return Optional.empty();
    }
  }

  /** Empty when there is none, or it is nonsense. */
  private Optional<JournalEntry> parsed(Path file) throws IOException {
    try {
      return Optional.of(JournalEntry.parse(state.files().get("read", () -> SmallFile.read(file))));
    } catch (NoSuchFileException none) {
      return Optional.empty();
    } catch (CharacterCodingException | IllegalArgumentException e) {
      warn(file, e);
      return Optional.empty();
    }
  }

  private static void warn(Path file, Exception why) {
    LOG.warn(
        "{} cannot be used as a journal entry: {}",
        Printable.of(file.toString()),
        Printable.of(why.toString()));
  }

  private Path file(ProcessKey process) {
    return state.path().resolve(process.text() + SUFFIX);
  }
}
