package dev.gpuprocess.criu.internal.log;

import static dev.gpuprocess.internal.text.OptionText.criu;

import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * The remedies for what CRIU reports. A hint is chosen by all errors of a log: it names each error
 * that must be there. A hint with a rarer cause comes before one for the same error alone.
 */
public final class Hints {

  private static final String STOPPED =
      "another process sent SIGSTOP or SIGCONT while CRIU dumped the process, which CRIU does not support"
          + " and the process may not survive: send no such signals during a dump";

  private static final Hint OPEN_FILES =
      new Hint(
          "CRIU may open too few files: raise the hard limit of the JVM to 1024 or more (ulimit -n,"
              + " LimitNOFILE of systemd), as it counts for CRIU too",
          "service_fd_base");

  private static final List<Hint> DUMP =
      List.of(
          new Hint(
              "the file is hidden by a mount above it: unmount that, or let the process close the file first",
              "link remap|linkat|link-remap",
              "Invalid cross-device link"),
          new Hint(
              "CRIU cannot read a line of /proc that is longer than a page, as of a process in more than"
                  + " some 680 groups: start the process in fewer groups",
              "bfd buffer is too small"),
          new Hint(
              "it has a socket of MPTCP, which CRIU does not dump: start a program in Go with"
                  + " GODEBUG=multipathtcp=0, and let others open TCP sockets",
              "Unsupported proto 262"),
          new Hint(
              "the kernel does not tell which file it watches (inotify, fanotify), as on overlayfs: use "
                  + criu("force-irmap")
                  + " and name the directory that it watches in "
                  + criu("irmap-scan-path=/"),
              "Can't dump that handle"),
          OPEN_FILES,
          new Hint("use " + criu("tcp-established"), "Connected TCP socket"),
          new Hint("use " + criu("file-locks"), "Some file locks are hold"),
          new Hint("use " + criu("ghost-limit=4095M"), "Can't dump ghost file"),
          new Hint("use " + criu("link-remap"), "Use link-remap option"),
          new Hint("use " + criu("ext-unix-sk"), "External socket"),
          new Hint(
              "it has a socket of a family that CRIU does not support, such as AF_ALG or AF_VSOCK: let the"
                  + " process close it first",
              "BUG! Unknown socket"),
          new Hint(
              "CRIU dumps at most 1024 pipes per tree: let the processes close some first",
              "OOM storing pipe"),
          new Hint("install iptables, or use " + criu("network-lock=nftables"), "ptables"),
          new Hint(
              "give CRIU CAP_SYS_RESOURCE, which it needs for other users' processes",
              "Can't get rlimit"),
          new Hint(STOPPED, "task interruption, aborting|was stopped by"));

  private static final List<Hint> RESTORE =
      List.of(
          OPEN_FILES,
          new Hint("use " + criu("root=/"), "BUG at criu/mount\\.c|The --root option is required"),
          new Hint("use " + criu("tcp-close"), "--tcp-close"),
          new Hint(
              "the file has changed since the dump: put the old version back, or restore a newer image",
              "has bad size"),
          new Hint(
              "a port on which it listened is held by connections that it has closed (TIME_WAIT, up to a"
                  + " minute after they were) or by another process (see ss -antp): restore it again"
                  + " after a minute, or when that process has ended",
              "Can't bind inet socket"),
          new Hint("use " + criu("tcp-established"), "Connected TCP socket"),
          new Hint("use " + criu("file-locks"), "file locks"),
          new Hint("use " + criu("ext-unix-sk"), "External socket"),
          new Hint("use " + criu("shell-job"), "shell.job"));

  private Hints() {}

  /** A remedy, and the errors for which it is one. */
  private record Hint(String cure, List<Pattern> errors) {

    Hint(String cure, String... errors) {
      this(cure, List.of(errors).stream().map(Pattern::compile).toList());
    }

    boolean isFor(List<String> log) {
      return errors.stream()
          .allMatch(error -> log.stream().anyMatch(line -> error.matcher(line).find()));
    }
  }

  /**
   * Returns the remedy.
   *
   * @param operation {@code dump} or {@code restore}; no other has hints
   * @param errors all errors of CRIU
   */
  public static Optional<String> of(String operation, List<String> errors) {
    List<Hint> hints =
        switch (operation) {
          case "dump" -> DUMP;
          case "restore" -> RESTORE;
          default -> List.of();
        };
    return hints.stream().filter(hint -> hint.isFor(errors)).map(Hint::cure).findFirst();
  }
}
