package dev.gpuprocess.criu.internal.process;

import java.util.ArrayList;
import java.util.List;

/** What an operator can do so that a user who is not root gets a CRIU that is. */
public final class Privilege {

  /** The environment variable that names a command. */
  public static final String VARIABLE = "GPUPROCESS_CRIU_COMMAND";

  /** For those who have no such CRIU. */
  public static final String CURE =
      "have sudo run CRIU as root for this user, as docs/criu-as-root.md says, or name another"
          + " command that does, in "
          + VARIABLE;

  private Privilege() {}

  /**
   * What to do about a command that did not lead to a CRIU.
   *
   * @param command the command
   * @param output what it printed
   */
  public static String cure(CriuCommand command, String output) {
    String program = command.words().get(command.words().size() - 1);
    if (output.contains("must have a tty")) {
      return "put 'Defaults!%s !requiretty' into sudoers".formatted(program);
    }
    if (output.contains("Socket operation on non-socket")) {
      return "it puts something of its own in the place of standard input, which is our socket: do not log the input of CRIU (NOLOG_INPUT in sudoers)";
    }
    if (command.program().endsWith("sudo")) {
      return "let root put '%s' into a file of /etc/sudoers.d with visudo (whoever may run this is root in effect)"
          .formatted(sudoersLine(command, program));
    }
    return "try it in a shell of this user";
  }

  /** The one command line that sudo has to allow. */
  private static String sudoersLine(CriuCommand command, String program) {
    List<String> all = command.arguments();
    List<String> criu = new ArrayList<>(all.subList(command.words().size() - 1, all.size()));
    String path = program.startsWith("/") ? program : "/usr/sbin/" + program;
    return "%s ALL=(root) NOPASSWD: %s %s"
        .formatted(System.getProperty("user.name"), path, String.join(" ", criu));
  }
}
