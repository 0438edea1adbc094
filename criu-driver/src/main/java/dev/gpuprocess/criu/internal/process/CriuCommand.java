package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.os.Spawn;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.UnsupportedOptionException;
import dev.gpuprocess.internal.proc.ProcFs;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * What starts CRIU: the program itself, or a command that runs it with more rights, such as {@code
 * sudo -n /usr/sbin/criu}. Either is followed by the same arguments.
 *
 * @param words the program by an absolute path, and its first arguments
 * @param direct whether the program is CRIU, so that CRIU is our child and inherits what we hand it
 */
public record CriuCommand(List<String> words, boolean direct) {

  /**
   * Where CRIU looks for plugins: a directory that has none, and where nobody can put one that CRIU
   * would then load as root. Its entries are numbers.
   */
  public static final String NO_PLUGINS = "/proc/self/fdinfo";

  /**
   * Without it CRIU obeys {@code /etc/criu/default.conf} and {@code ~/.criu/default.conf}, where a
   * {@code leave-running} or {@code track-mem} would change what a request means.
   */
  public static final String NO_DEFAULTS = "--no-default-config";

  /** A command such as sudo closes every descriptor above the standard ones. */
  private static final int SOCKET_THROUGH_COMMAND = 0;

  /** Files are made readable for others: the directory they are in is not. */
  private static final String READABLE = "umask 022; exec \"$0\" \"$@\"";

  private static final int READ_BY_OTHERS = 04;

  /** Copies the list. */
  public CriuCommand {
    words = List.copyOf(words);
  }

  public static CriuCommand direct(Path program) {
    return new CriuCommand(List.of(program.toString()), true);
  }

  /** The program to start. */
  Path program() {
    return Path.of(words.get(0));
  }

  /** The number of the socket in CRIU. */
  int socket() {
    return direct ? Spawn.SOCKET : SOCKET_THROUGH_COMMAND;
  }

  /** All that follows the program to have it serve the requests that come over its socket. */
  List<String> arguments() {
    List<String> all = new ArrayList<>(words.subList(1, words.size()));
    all.addAll(List.of(NO_DEFAULTS, "-L", NO_PLUGINS, "swrk", Integer.toString(socket())));
    return all;
  }

  /** Whether CRIU runs as another user than we do, whose files and processes are not ours. */
  boolean isOfAnotherUser() {
    return !direct && !ProgramTrust.weAreRoot();
  }

  /**
   * The same, with file modes that let us read what root writes: sudo adds our umask to its own.
   */
  CriuCommand withReadableFiles() {
    if (!isOfAnotherUser() || (umask() & READ_BY_OTHERS) == 0) {
      return this;
    }
    List<String> all = new ArrayList<>(List.of("/bin/sh", "-c", READABLE));
    all.addAll(words);
    return new CriuCommand(all, false);
  }

  private static int umask() {
    // Not in /proc before Linux 4.7: then it is taken for one that hides all.
    return Integer.parseInt(
        ProcFs.status(ProcessHandle.current().pid()).getOrDefault("Umask", "0777"), 8);
  }

  /**
   * Refuses an option for which CRIU must be our child.
   *
   * @param operation the verb
   * @param pid the process
   * @param option the option, empty when it is not set
   */
  public void requireDirect(String operation, int pid, Optional<String> option) {
    if (!direct && option.isPresent()) {
      throw new UnsupportedOptionException(
          "%s of process %s did not begin: %s needs a CRIU that is a child of this JVM, and '%s' hands no descriptor on and stays between them: run as root, or give the criu program its capabilities"
              .formatted(operation, pid, option.get(), this),
          Failure.of(operation, pid));
    }
  }

  /** {@return the command without CRIU's arguments, for messages} */
  @Override
  public String toString() {
    return String.join(" ", words);
  }
}
