package dev.gpuprocess.internal.extras;

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
import java.util.HexFormat;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The {@linkplain CudaJobFile job file} of a process, as it was when all members were checkpointed.
 * Each restore writes a copy to the path that the processes expect, before CRIU makes them. The
 * file is read and written with the permissions of the process.
 *
 * @param path the path without symbolic links
 * @param user the credentials of the process
 * @param mode the permissions
 * @param content the content
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
public record EmbeddedJobFile(Path path, Credentials user, int mode, byte[] content) {

  /** Earlier versions wrote user and group as two words, and no supplementary groups. */
  private static final Pattern TEXT =
      Pattern.compile(
          "cuda-job (\\d{1,10} \\d{1,10}|[\\d:,]{1,720920}) ([0-7]{1,3}) ([0-9a-f]{2,8192}) ([0-9a-f]*)");

  private static final int MOST_BYTES = 16 << 20;
  private static final int PERMISSIONS = 0777;

  /**
   * Reads the job file of a process.
   *
   * @param root the root of its tree, whose user it must have
   * @param pid a checkpointed process
   * @param isolated whether the process has mounts of its own, which CRIU dumps
   * @return empty when the process has no job file, or CRIU dumps it
   * @throws ImageException with reason JOB_FILE when an image cannot hold it
   */
  static Optional<EmbeddedJobFile> of(int root, int pid, boolean isolated) {
    Optional<Path> named = CudaJobFile.named(pid);
    if (named.isEmpty()) {
      return Optional.empty();
    }
    try {
      return of(root, pid, named.get(), isolated);
    } catch (IOException e) {
      throw refused(
          "dump",
          pid,
          named.get(),
          "cannot be opened by the process (%s): start the process with CUDA_CHECKPOINT_JOB_FILE naming a file of its own"
              .formatted(e.getMessage()),
          e);
    }
  }

  /** A child that runs as another user has the environment of its parent, and other rights. */
  private static void requireSameUser(int root, Credentials user) throws IOException {
    Optional<Credentials> ofRoot = Credentials.of(root);
    if (ofRoot.isPresent() && ofRoot.get().user() != user.user()) {
      throw new IOException(
          "it runs as user %s, and the root of its tree as user %s"
              .formatted(user.user(), ofRoot.get().user()));
    }
  }

  private static Optional<EmbeddedJobFile> of(int root, int pid, Path name, boolean isolated)
      throws IOException {
    Optional<Credentials> user = Credentials.of(pid);
    if (user.isEmpty()) {
      return Optional.empty();
    }
    requireSameUser(root, user.get());
    Optional<OpenedFile> opened = CudaJobFile.open(pid);
    if (opened.isEmpty()) {
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
            "is not a regular file with this name on this host: start the process with CUDA_CHECKPOINT_JOB_FILE naming a copy with a fixed path",
            null);
      }
      if (file.node().bytes() > MOST_BYTES) {
        throw refused(
            "dump",
            pid,
            name,
            "is larger than 16 MiB, so it is probably not a job file: name another file in CUDA_CHECKPOINT_JOB_FILE",
            null);
      }
      return Optional.of(
          new EmbeddedJobFile(
              file.path(), user.get(), file.node().mode() & PERMISSIONS, file.read(MOST_BYTES)));
    }
  }

  /** Returns whether a restore finds the file by this name, which is then not a link. */
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
   * A job file that was written for a restore.
   *
   * @param file the job file of the image
   * @param node the file at that path
   * @param before its content before; null if the file was created
   * @param lock prevents another controller from removing the file as unused; null where no
   *     controller does that
   */
  @SuppressWarnings("ArrayRecordComponent") // never compared
  record Placed(
      EmbeddedJobFile file, FileNode node, byte @Nullable [] before, @Nullable NamedLock lock) {

    /** Releases the lock, when CRIU has restored the processes or failed. */
    void release() {
      if (lock != null) {
        lock.closeAndForget();
      }
    }

    /** Restores the file to its state before, after a restore that failed. */
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
   * Writes a copy to the path. A file that an earlier run of the process left there is replaced.
   *
   * @param pid the pid of the root in the image
   * @param state the state directory of this controller
   * @return to be undone when the restore fails, and to be released in any case
   * @throws ImageException with reason JOB_FILE when the path is taken or cannot be written
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
          "restore", pid, path, "cannot be written (%s): nothing was restored".formatted(e), e);
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
    // This JVM and its ancestors may have the variable, because the process inherited it from them.
    Set<Integer> above =
        ProcFs.ownAncestry().stream().map(ProcStat::pid).collect(Collectors.toSet());
    for (int other : CudaJobFile.users(path, Optional.of(there))) {
      if (!above.contains(other)) {
        throw refused(
            "restore",
            pid,
            path,
            "is used by process %s: end it, or launch such processes isolated; nothing was restored"
                .formatted(other),
            null);
      }
    }
  }

  /**
   * Parses the text of {@link #toString}.
   *
   * @return empty when the line is something else
   */
  static Optional<EmbeddedJobFile> parse(String line) {
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
                new EmbeddedJobFile(
                    NativePath.of(path),
                    known,
                    Integer.parseInt(text.group(2), 8),
                    HexFormat.of().parseHex(text.group(4))));
  }

  /** Returns one line for an image. */
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
