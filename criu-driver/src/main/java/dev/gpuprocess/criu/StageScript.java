package dev.gpuprocess.criu;

import static dev.gpuprocess.criu.LibC.check;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
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
      @ROOT@echo "$$ $PPID ${CRTOOLS_INIT_PID:-0} $CRTOOLS_SCRIPT_ACTION" >&4 || exit 1
      exec 4>&-
      read -r script answer <&3
      [ "$script $answer" = "$$ yes" ]
      """;

  /**
   * What a script that runs as root does for a JVM that does not: at the first stage it leaves
   * somebody there who ends CRIU when told to, each process stopped before its children die, so
   * that it neither makes new ones nor goes on without them; and what CRIU has written becomes ours
   * to read before we are asked whether it is good.
   */
  private static final String FOR_ANOTHER_USER =
      """
      case $CRTOOLS_SCRIPT_ACTION in
      pre-dump | pre-restore)
        exec 5</proc/@JVM@/fd/@ORDERS@ || exit 1
        [ "$(readlink /proc/self/fd/5)" = '@ORDERS_PIPE@' ] || exit 1
        (
          end() {
            [ "$1" = $$ ] && return
            kill -STOP "$1"
            for child in $(cat /proc/"$1"/task/*/children); do end "$child"; done
            kill -9 "$1"
          }
          read -r order <&5
          case $order in
          all) end $PPID ;;
          criu) kill -9 $PPID ;;
          esac
        ) </dev/null >/dev/null 2>&1 3<&- 4>&- &
        exec 5<&-
        ;;
      post-dump) chown -hR @UID@:@GID@ "$CRTOOLS_IMAGE_DIR/." || exit 1 ;;
      esac
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

  private final Pipe calls;
  private final Pipe answers;
  private final Pipe orders;
  private final Path file;

  private StageScript(Pipe calls, Pipe answers, Pipe orders, Path file) {
    this.calls = calls;
    this.answers = answers;
    this.orders = orders;
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
    Path self = Path.of("/proc/self");
    return write(
        work,
        (Integer) Files.getAttribute(self, "unix:uid"),
        (Integer) Files.getAttribute(self, "unix:gid"));
  }

  /** The same for a JVM of this user and group. */
  static StageScript write(Path work, int user, int group) throws IOException {
    List<Pipe> pipes = new ArrayList<>();
    boolean written = false;
    try {
      for (int i = 0; i < 3; i++) {
        pipes.add(Pipe.open());
      }
      // The script reads these two by the number of the end for writing, which alone is kept: when
      // this JVM dies nobody is left who writes.
      pipes.get(1).closeReading();
      pipes.get(2).closeReading();
      Path file = writeFile(work.toRealPath(), text(pipes, user, group));
      written = true;
      return new StageScript(pipes.get(0), pipes.get(1), pipes.get(2), file);
    } finally {
      if (!written) {
        pipes.forEach(Pipe::close);
      }
    }
  }

  private static Path writeFile(Path work, String text) throws IOException {
    Path temporary = Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
    for (Path place : List.of(work, temporary)) {
      Path directory =
          Files.createTempDirectory(place, "stages-", PosixFilePermissions.asFileAttribute(OURS));
      Path file = directory.resolve("stage");
      Files.createFile(file, PosixFilePermissions.asFileAttribute(OURS));
      Files.setPosixFilePermissions(file, OURS); // whatever the umask is
      Files.writeString(file, text);
      if (Files.isExecutable(file)) {
        return file;
      }
      remove(file);
    }
    throw new IOException(
        "no program can be run from %s or %s, which are mounted noexec".formatted(work, temporary));
  }

  private static String text(List<Pipe> pipes, int user, int group) throws IOException {
    Pipe calls = pipes.get(0);
    Pipe answers = pipes.get(1);
    Pipe orders = pipes.get(2);
    return TEXT.replace("@ROOT@", user == 0 ? "" : FOR_ANOTHER_USER)
        .replace("@JVM@", Long.toString(ProcessHandle.current().pid()))
        .replace("@CALLS@", Integer.toString(calls.writing()))
        .replace("@CALLS_PIPE@", calls.name())
        .replace("@ANSWERS@", Integer.toString(answers.writing()))
        .replace("@ANSWERS_PIPE@", answers.name())
        .replace("@ORDERS@", Integer.toString(orders.writing()))
        .replace("@ORDERS_PIPE@", orders.name())
        .replace("@UID@", Integer.toString(user))
        .replace("@GID@", Integer.toString(group));
  }

  Path file() {
    return file;
  }

  /** What to poll: readable when there is a call. */
  int descriptor() {
    return calls.reading();
  }

  /**
   * Takes the call that has come.
   *
   * @return empty when it is none of the script's
   */
  Optional<Call> next() throws NativeCallException {
    byte[] bytes = new byte[LINE_LIMIT];
    int count = check(LibC.functions().read(calls.reading(), bytes, bytes.length), "read");
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
    answers.write(call.script() + (agreed ? " yes\n" : " no\n"));
  }

  /** Refuses what is asked now and from now on. */
  void hangUp() {
    calls.close();
    answers.close();
  }

  /**
   * Has CRIU killed by somebody who may, if it had come to its first stage and runs as another user
   * than we do.
   *
   * @param withTree whether what is below CRIU shall be killed too: what it has restored by half
   */
  void orderEnd(boolean withTree) throws NativeCallException {
    orders.write(withTree ? "all\n" : "criu\n");
  }

  @Override
  public void close() throws IOException {
    hangUp();
    orders.close();
    remove(file);
  }

  private static void remove(Path file) throws IOException {
    Files.deleteIfExists(file);
    Files.deleteIfExists(Objects.requireNonNull(file.getParent()));
  }
}
