package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.ImageException;
import dev.gpuprocess.internal.launch.CudaJobFile;
import dev.gpuprocess.internal.linux.Credentials;
import dev.gpuprocess.internal.linux.OpenedFile;
import dev.gpuprocess.internal.linux.UntrustedPaths;
import dev.gpuprocess.internal.proc.FileNode;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.state.NamedLock;
import dev.gpuprocess.internal.state.StateDirectory;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The {@linkplain CudaJobFile job file} of a job, as it was when all its processes were
 * checkpointed. Each restore gets a copy of its own, where the processes expect it, before CRIU
 * makes them. The file is read and written with the permissions of the process.
 *
 * @param path the path without symbolic links
 * @param user the credentials of the process
 * @param mode the permissions
 * @param content what is in it
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record CarriedJobFile(Path path, Credentials user, int mode, byte[] content) {

  /** Earlier versions wrote user and group as two words, and no other groups. */
  private static final Pattern TEXT =
      Pattern.compile(
          "cuda-job (\\d{1,10} \\d{1,10}|[\\d:,]{1,720920}) ([0-7]{1,3}) ([0-9a-f]{2,8192}) ([0-9a-f]*)");

  private static final int MOST_BYTES = 16 << 20;
  private static final int PERMISSIONS = 0777;

  /**
   * Reads that of a process.
   *
   * @param pid the process, which is checkpointed
   * @param isolated whether it has mounts of its own, which CRIU dumps
   * @return empty when it has none, or when CRIU carries it
   * @throws ImageException with reason JOB_FILE when it cannot be carried
   */
  static Optional<CarriedJobFile> of(int pid, boolean isolated) {
    Optional<Path> named = CudaJobFile.named(pid);
    if (named.isEmpty()) {
      return Optional.empty();
    }
    try {
      return of(pid, named.get(), isolated);
    } catch (IOException e) {
      throw refused(
          "dump",
          pid,
          named.get(),
          "cannot be opened by the process (%s): start the job with CUDA_CHECKPOINT_JOB_FILE naming a file of its own"
              .formatted(e.getMessage()),
          e);
    }
  }

  private static Optional<CarriedJobFile> of(int pid, Path name, boolean isolated)
      throws IOException {
    Optional<OpenedFile> opened = CudaJobFile.open(pid);
    Optional<Credentials> user = Credentials.of(pid);
    if (opened.isEmpty() || user.isEmpty()) {
      return Optional.empty();
    }
    try (OpenedFile file = opened.get()) {
      boolean isHere =
          name.isAbsolute() && !name.startsWith(ProcFs.ROOT) && isHere(name, file, user.get());
      if (!isHere && isolated && CudaJobFile.isInMemoryOfIsolated(name)) {
        return Optional.empty();
      }
      if (!isHere) {
        throw refused(
            "dump",
            pid,
            name,
            "is no regular file that has this name here: start the job with CUDA_CHECKPOINT_JOB_FILE naming a copy with a fixed path",
            null);
      }
      if (file.node().bytes() > MOST_BYTES) {
        throw refused("dump", pid, name, "is larger than 16 MiB: is it a job file?", null);
      }
      return Optional.of(
          new CarriedJobFile(
              file.path(), user.get(), file.node().mode() & PERMISSIONS, file.read(MOST_BYTES)));
    }
  }

  /** Whether a restore finds the file by its name, which is then no link itself. */
  private static boolean isHere(Path name, OpenedFile file, Credentials user) throws IOException {
    return UntrustedPaths.as(
        user,
        UntrustedPaths.PATIENCE,
        paths -> isSame(paths, name, file) && isSame(paths, file.path(), file));
  }

  private static boolean isSame(UntrustedPaths paths, Path path, OpenedFile file) {
    try (OpenedFile here = paths.hold(path).orElseThrow()) {
      return here.node().isSameFile(file.node());
    } catch (IOException | NoSuchElementException elsewhere) {
      return false;
    }
  }

  private static ImageException refused(
      String verb, int pid, Path path, String why, @Nullable Exception e) {
    return new ImageException(
        ImageException.Reason.JOB_FILE,
        "the job file %s of process %s %s".formatted(Printable.of(path.toString()), pid, why),
        Failure.of(verb, pid),
        e);
  }

  /**
   * A job file that was put back for a restore.
   *
   * @param file what was put back
   * @param node the file at that path
   * @param before what was in it; null if it was created
   * @param lock keeps another controller from taking it for a file that is not used; null where no
   *     controller would
   */
  @SuppressWarnings("ArrayRecordComponent") // never compared
  record Placed(
      CarriedJobFile file, FileNode node, byte @Nullable [] before, @Nullable NamedLock lock) {

    /** The processes are there, or will not be. */
    void release() {
      if (lock != null) {
        lock.closeAndForget();
      }
    }

    /** Makes it what it was before, as the restore failed. */
    void undo() throws IOException {
      boolean unused =
          UntrustedPaths.as(
              file.user(),
              UntrustedPaths.PATIENCE,
              paths -> {
                undo(paths);
                return true;
              });
    }

    private void undo(UntrustedPaths paths) throws IOException {
      if (before == null) {
        paths.remove(file.path(), node);
        return;
      }
      Optional<OpenedFile> opened = paths.readAndWrite(file.path());
      if (opened.isPresent()) {
        try (OpenedFile there = opened.get()) {
          if (there.node().isSameFile(node)) {
            there.replace(new ByteArrayInputStream(before));
            there.setMode(node.mode() & PERMISSIONS);
          }
        }
      }
    }
  }

  /**
   * Writes a copy there, over what an earlier life of the job has left.
   *
   * @param pid of the root in the image
   * @param state that of this controller
   * @return to be undone when the restore fails, and to be released in any case
   * @throws ImageException with reason JOB_FILE when something else is there, or it cannot be put
   *     there
   */
  Placed putBack(int pid, StateDirectory state) {
    NamedLock held = null;
    boolean done = false;
    try {
      held = CudaJobFile.holdForRestore(state, path).orElse(null);
      NamedLock lock = held;
      Placed placed =
          UntrustedPaths.as(user, UntrustedPaths.PATIENCE, paths -> write(paths, pid, lock));
      done = true;
      return placed;
    } catch (IOException e) {
      throw refused(
          "restore", pid, path, "cannot be put back (%s): nothing was restored".formatted(e), e);
    } finally {
      if (!done && held != null) {
        held.close();
      }
    }
  }

  private Placed write(UntrustedPaths paths, int pid, @Nullable NamedLock lock) throws IOException {
    Optional<OpenedFile> opened = paths.readAndWrite(path);
    try (OpenedFile there = opened.isPresent() ? opened.get() : paths.create(path)) {
      byte[] before = null;
      if (opened.isPresent()) {
        requireFree(pid, there.node());
        before = there.read(MOST_BYTES);
      }
      Placed placed = new Placed(this, there.node(), before, lock);
      try {
        there.setMode(mode);
        there.replace(new ByteArrayInputStream(content));
        return placed;
      } catch (IOException e) {
        placed.undo(paths);
        throw e;
      }
    }
  }

  private void requireFree(int pid, FileNode there) {
    if (there.user() != user.user()) {
      throw refused(
          "restore",
          pid,
          path,
          "belongs to user %s: move it away; nothing was restored"
              .formatted(Integer.toUnsignedString(there.user())),
          null);
    }
    // This JVM, and who has started it, may have the name as the job has it from them.
    Set<Integer> above = ancestors();
    for (int other : CudaJobFile.users(path, Optional.of(there))) {
      if (!above.contains(other)) {
        throw refused(
            "restore",
            pid,
            path,
            "is that of process %s, which lives: end it, or launch such jobs isolated; nothing was restored"
                .formatted(other),
            null);
      }
    }
  }

  private static Set<Integer> ancestors() {
    Set<Integer> found = new HashSet<>();
    Optional<ProcStat> next = ProcFs.stat(ProcessHandle.current().pid());
    while (next.isPresent() && found.add(next.get().pid())) {
      next = ProcFs.stat(next.get().parent());
    }
    return found;
  }

  /**
   * Reads what {@link #toString} wrote.
   *
   * @param line one line
   * @return empty when it is something else
   */
  static Optional<CarriedJobFile> parse(String line) {
    Matcher text = TEXT.matcher(line);
    if (!text.matches() || text.group(3).length() % 2 != 0 || text.group(4).length() % 2 != 0) {
      return Optional.empty();
    }
    String user = text.group(1);
    String path = new String(HexFormat.of().parseHex(text.group(3)), StandardCharsets.UTF_8);
    return Credentials.parse(user.contains(" ") ? user.replace(' ', ':') + ":" : user)
        .filter(known -> path.startsWith("/") && !path.contains("/../") && path.indexOf('\0') < 0)
        .map(
            known ->
                new CarriedJobFile(
                    NativePath.of(path),
                    known,
                    Integer.parseInt(text.group(2), 8),
                    HexFormat.of().parseHex(text.group(4))));
  }

  /** One line. */
  @Override
  public String toString() {
    HexFormat hex = HexFormat.of();
    return "cuda-job %s %s %s %s"
        .formatted(
            user,
            Integer.toOctalString(mode),
            hex.formatHex(NativePath.bytes(path)),
            hex.formatHex(content));
  }
}
