package dev.gpuprocess.internal.dump;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.JobFileException;
import dev.gpuprocess.internal.launch.CudaJobFile;
import dev.gpuprocess.internal.lock.NamedLock;
import dev.gpuprocess.internal.lock.StateDirectory;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcStat;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The {@linkplain CudaJobFile job file} of a job, as it was when all its processes were
 * checkpointed. Each restore gets a copy of its own, where the processes expect it, before CRIU
 * makes them.
 *
 * @param path where it is
 * @param user its owner
 * @param group its group
 * @param mode its permissions
 * @param content what is in it
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record CarriedJobFile(Path path, int user, int group, int mode, byte[] content) {

  private static final Pattern TEXT =
      Pattern.compile(
          "cuda-job (\\d{1,10}) (\\d{1,10}) ([0-7]{1,3}) ([0-9a-f]{2,8192}) ([0-9a-f]*)");
  private static final int MOST_BYTES = 16 << 20;
  private static final int PERMISSIONS = 0777;
  private static final Path PROC = Path.of("/proc");

  /**
   * Reads that of a process.
   *
   * @param pid the process, which is checkpointed
   * @param isolated whether it has mounts of its own, which CRIU dumps
   * @return empty when it has none, or when CRIU carries it
   * @throws JobFileException when it cannot be carried
   */
  static Optional<CarriedJobFile> of(int pid, boolean isolated) {
    Optional<Path> named = CudaJobFile.named(pid);
    Optional<Path> reached = CudaJobFile.reach(pid).filter(Files::exists);
    if (named.isEmpty() || reached.isEmpty()) {
      return Optional.empty();
    }
    Path path = named.get();
    boolean isHere = path.equals(reached.get());
    if (!isHere && isolated && CudaJobFile.isInMemoryOfIsolated(path)) {
      return Optional.empty();
    }
    if (!isHere || path.startsWith(PROC) || !isRegular(path)) {
      throw refused(
          "dump",
          pid,
          path,
          "is no regular file that has this name here: start the job with CUDA_CHECKPOINT_JOB_FILE naming a copy with a fixed path",
          null);
    }
    try {
      if (Files.size(path) > MOST_BYTES) {
        throw refused("dump", pid, path, "is larger than 16 MiB: is it a job file?", null);
      }
      Map<String, Object> found = Files.readAttributes(path, "unix:uid,gid,mode");
      return Optional.of(
          new CarriedJobFile(
              path,
              number(found, "uid"),
              number(found, "gid"),
              number(found, "mode") & PERMISSIONS,
              Files.readAllBytes(path)));
    } catch (IOException e) {
      throw refused("dump", pid, path, "cannot be read (%s)".formatted(e), e);
    }
  }

  private static boolean isRegular(Path path) {
    return Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS);
  }

  private static int number(Map<String, Object> attributes, String name) {
    return attributes.get(name) instanceof Integer value ? value : -1;
  }

  private static JobFileException refused(
      String verb, int pid, Path path, String why, @Nullable Exception e) {
    return new JobFileException(
        "the job file %s of process %s %s".formatted(Printable.of(path.toString()), pid, why),
        Failure.of(verb, pid),
        e);
  }

  /**
   * Puts a fresh copy there, in place of what an earlier life of the job has left.
   *
   * @param pid of the root in the image
   * @param state that of this controller
   * @return what keeps it from being taken for a left one, until the processes are there; empty
   *     where nobody would
   * @throws JobFileException when something else is there, or it cannot be put there
   */
  Optional<NamedLock> putBack(int pid, StateDirectory state) {
    Optional<NamedLock> held = Optional.empty();
    boolean done = false;
    try {
      held = CudaJobFile.holdForRestore(state, path);
      requireFree(pid);
      try (ForeignDirectory directory =
          ForeignDirectory.open(Objects.requireNonNull(path.getParent()))) {
        Path name = Objects.requireNonNull(path.getFileName());
        directory.remove(name);
        directory.create(name, user, group, mode, content);
      }
      done = true;
      return held;
    } catch (IOException e) {
      throw refused(
          "restore", pid, path, "cannot be put back (%s): nothing was restored".formatted(e), e);
    } finally {
      if (!done) {
        held.ifPresent(NamedLock::close);
      }
    }
  }

  private void requireFree(int pid) throws IOException {
    if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (!isRegular(path) || !Integer.valueOf(user).equals(Files.getAttribute(path, "unix:uid"))) {
      throw refused(
          "restore",
          pid,
          path,
          "has something else in its place: move that away; nothing was restored",
          null);
    }
    // This JVM, and who has started it, may have the name as the job has it from them.
    Set<Integer> above = ancestors();
    for (int user : CudaJobFile.users(path)) {
      if (!above.contains(user)) {
        throw refused(
            "restore",
            pid,
            path,
            "is that of process %s, which lives: end it, or launch such jobs isolated; nothing was restored"
                .formatted(user),
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
    if (!text.matches() || text.group(4).length() % 2 != 0 || text.group(5).length() % 2 != 0) {
      return Optional.empty();
    }
    String path = new String(HexFormat.of().parseHex(text.group(4)), StandardCharsets.UTF_8);
    return path.startsWith("/") && !path.contains("/../") && path.indexOf('\0') < 0
        ? Optional.of(
            new CarriedJobFile(
                NativePath.of(path),
                Integer.parseUnsignedInt(text.group(1)),
                Integer.parseUnsignedInt(text.group(2)),
                Integer.parseInt(text.group(3), 8),
                HexFormat.of().parseHex(text.group(5))))
        : Optional.empty();
  }

  /** One line. */
  @Override
  public String toString() {
    HexFormat hex = HexFormat.of();
    return "cuda-job %s %s %s %s %s"
        .formatted(
            Integer.toUnsignedString(user),
            Integer.toUnsignedString(group),
            Integer.toOctalString(mode),
            hex.formatHex(NativePath.bytes(path)),
            hex.formatHex(content));
  }
}
