package dev.gpuprocess.internal.state;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.ProcessKey;
import dev.gpuprocess.internal.linux.SmallFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
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

  private static final Logger LOG = LoggerFactory.getLogger("dev.gpuprocess");

  private static final String LOCK = "recovery";
  private static final String SUFFIX = ".process";
  private static final String EXIT_SUFFIX = ".exit";
  private static final String LAUNCH_SUFFIX = ".job";
  private static final String PARTIAL = ".half";
  private static final String ASIDE = ".unread";

  /** Added to the start time of entries of images: no machine runs so many clock ticks. */
  private static final long NO_START = 1L << 58;

  private static final Pattern PARTIAL_OF =
      Pattern.compile(".*\\.(?:process|job)\\.([\\d-]+)\\.half");

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
    Path partial =
        state
            .path()
            .resolve("%s.%s%s".formatted(file.getFileName(), ProcessKey.self().text(), PARTIAL));
    try {
      state.make();
      state.files().run("write", () -> replace(file, partial, text(entry)));
    } catch (IOException e) {
      throw state.unusable(e, entry.step(), entry.pid());
    }
  }

  /**
   * Returns the text of an entry, without its address ranges if it would be too long to be read.
   * The save files are useful, but not necessary.
   */
  private static String text(JournalEntry entry) {
    String all = entry.text();
    return all.getBytes(StandardCharsets.UTF_8).length <= SmallFile.MAX_BYTES
        ? all
        : entry.in(List.of()).text();
  }

  private static void replace(Path file, Path partial, String text) throws IOException {
    try {
      SmallFile.replace(partial, text);
      Files.move(
          partial, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } finally {
      Files.deleteIfExists(partial);
    }
  }

  /**
   * Updates an entry. If that fails, a recovery can still use the older one.
   *
   * @return whether it was written; if not, the older entry must stay
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
   * @param held the GPU memory that the process held
   * @return the key of the entry, for its removal
   */
  public ProcessKey writeRestore(int pid, GpuUsage held, Path image, Path log) {
    ProcessKey notBefore = new ProcessKey(ProcessKey.self().namespace(), pid, ProcFs.ticksNow());
    write(JournalEntry.of(notBefore, pid, JournalEntry.RESTORING, held, image, log));
    return notBefore;
  }

  /**
   * Writes the pid of the process that is being restored. If that fails and this JVM dies during
   * the restore, a recovery does not find the process.
   *
   * @param restore the result of {@link #writeRestore}
   */
  public void updateRestore(ProcessKey restore, int pid, GpuUsage held, Path image, Path log) {
    update(JournalEntry.of(restore, pid, JournalEntry.RESTORING, held, image, log));
  }

  /**
   * Writes that an image is being written or removed while its process continues, so that a
   * recovery finds a partial image. A process can have several such entries. If the write fails,
   * the next dump to the same directory finds the partial image.
   *
   * @param log the directory of CRIU's log; else null
   * @return the entry, to be closed when the image is complete or gone
   */
  public ImageEntry writeImage(int pid, Path image, @Nullable Path log) {
    long noStart = NO_START + ThreadLocalRandom.current().nextInt(Integer.MAX_VALUE);
    ProcessKey key = new ProcessKey(ProcessKey.self().namespace(), pid, noStart);
    update(JournalEntry.of(key, pid, JournalEntry.WRITING, GpuUsage.UNKNOWN, image, log));
    return new ImageEntry(this, image, file(key));
  }

  /**
   * Writes that a launched process must exit with this JVM, for a recovery if its guard does not
   * kill it. If the write fails, only the guard kills it.
   */
  public void writeLaunch(ProcessIdentity root) {
    String step = JournalEntry.LAUNCHED;
    try {
      write(
          launchFile(root),
          JournalEntry.of(asSeenHere(root), root.pid(), step, GpuUsage.UNKNOWN, null, null));
    } catch (StateDirectoryException e) {
      LOG.warn("process {} is not in the journal: {}", root.pid(), e.getMessage());
    }
  }

  /** Returns the file of the entry of a launched process. Its guard removes it after this JVM. */
  public Path launchFile(ProcessIdentity root) {
    return state.path().resolve(asSeenHere(root).text() + LAUNCH_SUFFIX);
  }

  /**
   * Returns the file in which the guard of a launched process that survives this JVM records how
   * the process has exited. Makes its directory.
   */
  public Path exitFile(ProcessIdentity root) {
    try {
      state.make();
    } catch (IOException e) {
      LOG.warn("how process {} exits will not be recorded: {}", root.pid(), e.getMessage());
    }
    return exitPath(root);
  }

  private Path exitPath(ProcessIdentity root) {
    return state.path().resolve(asSeenHere(root).text() + EXIT_SUFFIX);
  }

  /**
   * Returns how a launched process that survived its JVM has exited; empty if that is not recorded.
   *
   * @throws StateDirectoryException when it cannot be read
   */
  public Optional<ExitStatus> exit(ProcessIdentity root) {
    Path file = exitPath(root);
    try {
      if (!state.exists() || !state.files().get("look", () -> SmallFile.is(file))) {
        return Optional.empty();
      }
      String status = state.files().get("read", () -> SmallFile.read(file)).strip();
      return Optional.of(ExitStatus.ofWait(Integer.parseInt(status)));
    } catch (NoSuchFileException notThere) {
      return Optional.empty();
    } catch (IOException e) {
      throw unreadable(e);
    } catch (NumberFormatException e) {
      throw unreadable(new IOException(file + " has no exit status", e));
    }
  }

  /** Returns a key that, unlike the process's own key, is the same after the process has exited. */
  private static ProcessKey asSeenHere(ProcessIdentity root) {
    return new ProcessKey(ProcessKey.self().namespace(), root.pid(), root.startTicks());
  }

  /**
   * Returns the entries of launched processes that must exit with their controllers, by their
   * files.
   *
   * @throws StateDirectoryException when an entry cannot be read now
   */
  public Map<Path, JournalEntry> launches() {
    Map<Path, JournalEntry> launches = new LinkedHashMap<>();
    for (Path file : list(LAUNCH_SUFFIX)) {
      readNow(file)
          .filter(entry -> isNameOf(file, entry, LAUNCH_SUFFIX))
          .ifPresent(entry -> launches.put(file, entry));
    }
    return launches;
  }

  private static boolean isNameOf(Path file, JournalEntry entry, String suffix) {
    return String.valueOf(file.getFileName()).equals(entry.key().text() + suffix);
  }

  /**
   * Removes the entry of a process that is running or has exited: there is nothing left to recover.
   */
  public void remove(ProcessKey process) {
    remove(file(process));
  }

  /** Removes an entry by its file, such as that of a launched process that has exited. */
  public void remove(Path file) {
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
   * Removes the entry of a restore that CRIU has ended. A process that was restored within a clock
   * tick has the key of the restore, and its own entry replaced that of the restore; it stays. An
   * entry that cannot be read now stays for a recovery.
   *
   * @param restore the result of {@link #writeRestore}
   */
  public void removeRestore(ProcessKey restore) {
    if (find(restore).filter(JournalEntry::isImageRestore).isPresent()) {
      remove(restore);
    }
  }

  /** Returns the entry of a process itself, and not of the restore that may have created it. */
  public Optional<JournalEntry> ownEntry(ProcessKey process) {
    return find(process).filter(entry -> !entry.isImageRestore());
  }

  /** Returns the entry of a process; empty also if the state directory cannot be trusted. */
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

  /** Returns the entry of a process. */
  public Optional<JournalEntry> find(ProcessIdentity process) {
    return find(ProcessKey.of(process));
  }

  /**
   * Returns all entries.
   *
   * @throws StateDirectoryException when one cannot be read now: a recovery must see all members of
   *     a process
   */
  public List<JournalEntry> entries() {
    List<JournalEntry> entries = new ArrayList<>();
    for (Path file : list(SUFFIX)) {
      readNow(file).filter(entry -> isNameOf(file, entry, SUFFIX)).ifPresent(entries::add);
    }
    return entries;
  }

  /**
   * Returns the entries of processes that are not running. Empty if the state directory cannot be
   * used, since a process must be resumed without it.
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
   * cannot be read now, for example because too many files are open, stay.
   */
  public void quarantineInvalid() {
    quarantineInvalid(SUFFIX);
    quarantineInvalid(LAUNCH_SUFFIX);
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
      } catch (NoSuchFileException removed) {
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
    } catch (IllegalArgumentException | CharacterCodingException invalid) {
      return false;
    }
  }

  /** Removes partial entries of controllers that died while they wrote them. */
  public void removePartial() {
    for (Path file : list(PARTIAL)) {
      Matcher name = PARTIAL_OF.matcher(file.getFileName().toString());
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
      return state.exists() ? state.files().get("list", () -> files(suffix)) : List.of();
    } catch (NoSuchFileException nothingYet) {
      return List.of();
    } catch (IOException e) {
      throw unreadable(e);
    }
  }

  private List<Path> files(String suffix) throws IOException {
    return DurableFiles.list(state.path()).stream()
        .filter(file -> String.valueOf(file.getFileName()).endsWith(suffix))
        .toList();
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

  /** Parses an entry; else empty, or the file is invalid. */
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
