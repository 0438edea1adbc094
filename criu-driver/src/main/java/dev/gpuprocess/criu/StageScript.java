package dev.gpuprocess.criu;

import static dev.gpuprocess.criu.LibC.check;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The script that a CRIU started from the command line runs at each stage ({@code action-script}):
 * it tells this JVM the stage and hands its answer on as exit code. For one thread.
 *
 * <p>They talk through two pipes of this JVM, which the script opens by {@code /proc/PID/fd}. That
 * never blocks, it fails when this JVM is gone, and reading ends when it dies meanwhile: so the
 * script never hangs, and without an answer it fails, which CRIU takes for a refusal. The script is
 * made of numbers of ours alone.
 */
final class StageScript implements AutoCloseable {

  /** Opened for appending, so that nothing is cut off should the number belong to another now. */
  private static final String TEXT =
      """
      #!/bin/sh
      # Tells process @JVM@ how far CRIU has come, and CRIU whether to go on.
      exec 3</proc/@JVM@/fd/@ANSWERS@ 4>>/proc/@JVM@/fd/@CALLS@ || exit 1
      [ "$(readlink /proc/self/fd/3)" = '@ANSWERS_PIPE@' ] || exit 1
      [ "$(readlink /proc/self/fd/4)" = '@CALLS_PIPE@' ] || exit 1
      @OWN@echo "$$ $PPID ${CRTOOLS_INIT_PID:-0} $CRTOOLS_SCRIPT_ACTION" >&4 || exit 1
      exec 4>&-
      read -r script answer <&3
      [ "$script $answer" = "$$ yes" ]
      """;

  /** What CRIU writes as root is ours to read before we are asked whether it is good. */
  private static final String OWN =
      """
      if [ "$CRTOOLS_SCRIPT_ACTION" = post-dump ]; then
        chown -hR @UID@:@GID@ "$CRTOOLS_IMAGE_DIR/." || exit 1
      fi
      """;

  private static final Pattern LINE = Pattern.compile("(\\d+) (\\d+) (\\d+) ([a-z-]+)\n");
  private static final Set<PosixFilePermission> OURS = PosixFilePermissions.fromString("rwx------");
  private static final int LINE_LIMIT = 4096; // PIPE_BUF: the kernel mixes no lines up to here

  /**
   * What the script said.
   *
   * @param script its pid
   * @param criu the pid of CRIU
   * @param root the pid of the root of the tree, 0 when there is none yet
   * @param stage CRIU's name of the stage
   */
  record Call(int script, int criu, int root, String stage) {}

  private final int[] calls;
  private final int answers;
  private final Path file;
  private boolean open = true;

  private StageScript(int[] calls, int answers, Path file) {
    this.calls = calls;
    this.answers = answers;
    this.file = file;
  }

  /**
   * Writes the script into a directory of its own.
   *
   * @param work where that is, unless no program can be run from there: then it is where temporary
   *     files are
   * @throws IOException when no program can be run from there either
   */
  static StageScript write(Path work) throws IOException {
    int[] calls = {-1, -1};
    int[] answers = {-1, -1};
    boolean written = false;
    try {
      check(LibC.functions().pipe2(calls, LibC.CLOEXEC), "pipe2");
      check(LibC.functions().pipe2(answers, LibC.CLOEXEC), "pipe2");
      Path file = writeFile(work.toAbsolutePath(), calls[0], answers[1]);
      written = true;
      return new StageScript(calls, answers[1], file);
    } finally {
      // Reading from the other end's number opens it anew, so only one end is kept of this pipe.
      LibC.close(answers[0]);
      if (!written) {
        LibC.close(calls[0]);
        LibC.close(calls[1]);
        LibC.close(answers[1]);
      }
    }
  }

  private static Path writeFile(Path work, int calls, int answers) throws IOException {
    Path temporary = Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
    for (Path place : List.of(work, temporary)) {
      Path directory =
          Files.createTempDirectory(place, "stages-", PosixFilePermissions.asFileAttribute(OURS));
      Path file = directory.resolve("stage");
      Files.createFile(file, PosixFilePermissions.asFileAttribute(OURS));
      Files.setPosixFilePermissions(file, OURS); // whatever the umask is
      Files.writeString(file, text(file, calls, answers));
      if (Files.isExecutable(file)) {
        return file;
      }
      remove(file);
    }
    throw new IOException(
        "no program can be run from %s or %s, which are mounted noexec".formatted(work, temporary));
  }

  private static String text(Path file, int calls, int answers) throws IOException {
    Object user = Files.getAttribute(file, "unix:uid");
    return TEXT.replace("@OWN@", user.equals(0) ? "" : OWN)
        .replace("@JVM@", Long.toString(ProcessHandle.current().pid()))
        .replace("@ANSWERS@", Integer.toString(answers))
        .replace("@CALLS@", Integer.toString(calls))
        .replace("@ANSWERS_PIPE@", pipe(answers))
        .replace("@CALLS_PIPE@", pipe(calls))
        .replace("@UID@", user.toString())
        .replace("@GID@", Files.getAttribute(file, "unix:gid").toString());
  }

  /** Such as {@code pipe:[4711]}, a number that no other pipe has. */
  private static String pipe(int descriptor) throws IOException {
    return Files.readSymbolicLink(Path.of("/proc/self/fd", Integer.toString(descriptor)))
        .toString();
  }

  Path file() {
    return file;
  }

  /** What to poll: readable when there is a call. */
  int descriptor() {
    return calls[0];
  }

  /**
   * Takes the call that has come.
   *
   * @return empty when it is none of the script's
   */
  Optional<Call> next() throws NativeCallException {
    byte[] bytes = new byte[LINE_LIMIT];
    int count = check(LibC.functions().read(calls[0], bytes, bytes.length), "read");
    Matcher line = LINE.matcher(new String(bytes, 0, count, StandardCharsets.US_ASCII));
    if (!line.matches()) {
      return Optional.empty();
    }
    return Optional.of(
        new Call(
            Integer.parseInt(line.group(1)),
            Integer.parseInt(line.group(2)),
            Integer.parseInt(line.group(3)),
            line.group(4)));
  }

  /** Answers a call. If the script is gone meanwhile, nobody else takes the answer for its own. */
  void answer(Call call, boolean agreed) throws NativeCallException {
    byte[] line =
        (call.script() + (agreed ? " yes" : " no") + "\n").getBytes(StandardCharsets.US_ASCII);
    long written = LibC.functions().write(answers, line, line.length);
    if (written < 0 && LibC.errno() != LibC.EPIPE) {
      check(written, "write");
    }
  }

  /** Refuses what is asked now and from now on. */
  void hangUp() {
    if (open) {
      open = false;
      LibC.close(calls[0]);
      LibC.close(calls[1]);
      LibC.close(answers);
    }
  }

  @Override
  public void close() throws IOException {
    hangUp();
    remove(file);
  }

  private static void remove(Path file) throws IOException {
    Files.deleteIfExists(file);
    Files.deleteIfExists(Objects.requireNonNull(file.getParent()));
  }
}
