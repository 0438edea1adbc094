package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.internal.linux.ChildProcess;
import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.internal.linux.CurrentUser;
import dev.gpuprocess.internal.proc.Capabilities;
import dev.gpuprocess.internal.proc.Capabilities.Capability;
import dev.gpuprocess.internal.proc.HostMounts;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.text.OptionText;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The command that starts CRIU: the program itself, or one that runs it with more privileges, such
 * as {@code sudo -n /usr/sbin/criu}. Both are followed by the same arguments.
 *
 * @param words the absolute path of the program, and its first arguments
 * @param direct whether the program is CRIU, so that CRIU is our child and inherits the descriptors
 *     we pass it
 * @param inHostMounts whether CRIU is started in the mount namespace of init, and not in ours
 */
public record CriuCommand(List<String> words, boolean direct, boolean inHostMounts) {

  /**
   * CRIU's plugin directory: one that contains no plugin, as its entries are numbers, and in which
   * no user can create one for CRIU to load as root.
   */
  public static final String NO_PLUGINS = "/proc/self/fdinfo";

  /**
   * Without it CRIU reads {@code /etc/criu/default.conf} and {@code ~/.criu/default.conf}, where a
   * {@code leave-running} or {@code track-mem} would change what a request means.
   */
  public static final String NO_DEFAULTS = "--no-default-config";

  /** A command such as sudo closes every descriptor above the standard ones. */
  private static final int SOCKET_THROUGH_COMMAND = 0;

  /** Makes files readable by other users; their directory is not. */
  private static final String READABLE = "umask 022; exec \"$0\" \"$@\"";

  private static final int READ_BY_OTHERS = 04;
  private static final int SET_USER_ID = 04000;

  /** Copies the list. */
  public CriuCommand {
    words = List.copyOf(words);
  }

  /** A command in the mount namespace of this JVM. */
  public CriuCommand(List<String> words, boolean direct) {
    this(words, direct, false);
  }

  /** Returns the same command in the mount namespace of init. */
  public CriuCommand withHostMounts() {
    return new CriuCommand(words, direct, true);
  }

  /** Returns a file that identifies the mount namespace to start in; null for that of this JVM. */
  @Nullable Path mounts() {
    return inHostMounts ? HostMounts.namespace() : null;
  }

  public static CriuCommand direct(Path program) {
    return new CriuCommand(List.of(program.toString()), true);
  }

  /** The program to start. */
  Path program() {
    return Path.of(words.get(0));
  }

  /** Returns the descriptor of the socket in CRIU. */
  int socket() {
    return direct ? ChildProcess.SOCKET : SOCKET_THROUGH_COMMAND;
  }

  /** Returns the arguments with which the program serves requests that arrive on its socket. */
  List<String> arguments() {
    List<String> all = new ArrayList<>(words.subList(1, words.size()));
    all.addAll(List.of(NO_DEFAULTS, "-L", NO_PLUGINS));
    if (direct && lacksRoot()) {
      all.add("--unprivileged"); // a check of the kernel has no options of its own
    }
    all.addAll(List.of("swrk", Integer.toString(socket())));
    return all;
  }

  /**
   * Returns whether CRIU does not run as root, or as the root of a container that has some of the
   * capabilities at most. It must be asked then to do with those that its program file or this JVM
   * has.
   */
  public boolean lacksRoot() {
    if (direct && !CurrentUser.isRoot() && !becomesRoot(program())) {
      return true;
    }
    Capabilities ours = Capabilities.ours();
    return !ours.mayGiveRoot(Capability.SYS_ADMIN) || !ours.mayGiveRoot(Capability.NET_ADMIN);
  }

  private static boolean becomesRoot(Path program) {
    try {
      return (((Integer) Files.getAttribute(program, "unix:mode")) & SET_USER_ID) != 0
          && Files.getAttribute(program, "unix:uid").equals(0);
    } catch (IOException e) {
      return false; // CRIU itself will say what it lacks
    }
  }

  /**
   * Refuses an option for which CRIU must be root.
   *
   * @param operation the operation, such as {@code dump}
   * @param pid the process
   */
  public void requireRoot(String operation, int pid, String option) {
    if (lacksRoot()) {
      throw unsupported(
          operation,
          pid,
          "%s requires CRIU as root, and '%s' has some of its capabilities at most: run as root, or use %s, which leaves control groups out"
              .formatted(option, this, OptionText.criu("unprivileged")));
    }
  }

  /** Returns whether CRIU runs as another user, who then owns its files and processes. */
  boolean isOfAnotherUser() {
    return !direct && !CurrentUser.isRoot();
  }

  /**
   * Returns the same command with a umask that lets this JVM read root's files: sudo adds this
   * JVM's umask to its own.
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
    // Not in /proc before Linux 4.7: assume the strictest.
    return Integer.parseInt(
        ProcFs.status(ProcessHandle.current().pid()).getOrDefault("Umask", "0777"), 8);
  }

  /**
   * Refuses an option for which CRIU must be our child.
   *
   * @param operation the operation, such as {@code dump}
   * @param pid the process
   */
  public void requireDirect(String operation, int pid, String option) {
    if (!direct) {
      throw unsupported(
          operation,
          pid,
          "%s requires CRIU to be a child of this JVM, but '%s' runs between them and passes no descriptors on: run as root, or give the criu program its capabilities"
              .formatted(option, this));
    }
  }

  private static FixAndRetryException unsupported(String operation, int pid, String why) {
    return new FixAndRetryException(
        FixAndRetryException.Reason.UNSUPPORTED_OPTION,
        "%s of process %s did not begin: %s".formatted(operation, pid, why),
        Failure.of(operation, pid));
  }

  /** {@return the command without CRIU's arguments, for messages} */
  @Override
  public String toString() {
    return String.join(" ", words);
  }
}
