package dev.gpuprocess.criu.internal.process;

import dev.gpuprocess.criu.proto.Rpc.criu_opts;
import dev.gpuprocess.criu.proto.Rpc.criu_req;
import dev.gpuprocess.criu.proto.Rpc.criu_req_type;
import dev.gpuprocess.internal.linux.DurableFiles;
import dev.gpuprocess.internal.time.Deadline;
import dev.gpuprocess.report.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Kills processes as root, for a user whose only way to become root is CRIU. Another CRIU is
 * requested to dump a pid that cannot exist, with a script that runs first ({@code action-script});
 * the script kills the processes and fails, and so does the dump.
 *
 * <p>This is for processes that would otherwise outlive their deadline: a restoring CRIU blocks the
 * signals that sudo forwards, and given damaged images it writes to its log until the disk is full.
 */
final class RootErrand {

  /** Above the highest pid that Linux assigns (PID_MAX_LIMIT, 4194304). */
  private static final int NOBODY = 5_000_000;

  private static final Duration LIMIT = Duration.ofSeconds(5);
  private static final String SCRIPT = "errand";
  private static final String CONFIG = "errand.conf";
  private static final String LOG = "errand.log";
  private static final Set<PosixFilePermission> OURS = PosixFilePermissions.fromString("rwx------");

  /**
   * Compares start times, so that no process that has reused a pid is killed. Each process of a
   * tree is stopped before its children are killed, so that it neither starts new ones nor
   * continues without them.
   */
  private static final String TEXT =
      """
      #!/bin/sh
      tree() {
        kill -STOP "$1"
        for child in $(cat /proc/"$1"/task/*/children); do tree "$child"; done
        kill -9 "$1"
      }
      alone() {
        kill -9 "$1"
      }
      end() {
        how=$1 pid=$2 start=$3
        read -r stat </proc/"$pid"/stat || return
        set -- ${stat##*) }
        [ "${20}" = "$start" ] && "$how" "$pid"
      }
      """;

  private RootErrand() {}

  /**
   * Kills processes.
   *
   * @param command the command that runs CRIU as root
   * @param withTree whether their descendants are killed too
   * @throws IOException if that CRIU did not run the script
   */
  static void kill(CriuCommand command, List<ProcessIdentity> processes, boolean withTree)
      throws IOException {
    StringBuilder script = new StringBuilder(TEXT);
    for (ProcessIdentity each : processes) {
      if (each.pid() <= 1) {
        throw new IllegalArgumentException("never signals pid " + each.pid());
      }
      // The shell does not understand the digits of other locales.
      String how = withTree ? "tree" : "alone";
      script.append(
          String.format(Locale.ROOT, "end %s %d %d%n", how, each.pid(), each.startTicks()));
    }
    run(command, script.append(": >\"${0%/*}\"/done\nexit 1\n").toString());
  }

  private static void run(CriuCommand command, String script) throws IOException {
    Path directory = executable(script);
    try (ImageDirectories open = ImageDirectories.open(directory, directory);
        CriuProcess criu = CriuProcess.startErrand(command)) {
      Files.writeString(
          directory.resolve(CONFIG), "action-script " + open.seenByCriu(SCRIPT) + "\n");
      criu_opts opts =
          criu_opts
              .newBuilder()
              .setImagesDirFd(open.images())
              .setPid(NOBODY)
              .setLogFile(LOG)
              .setConfigFile(open.seenByCriu(CONFIG))
              .build();
      new Conversation(criu, CallContext.plain(Deadline.after(LIMIT)))
          .ask(criu_req.newBuilder().setType(criu_req_type.DUMP).setOpts(opts).build());
      if (!Files.exists(directory.resolve("done"))) {
        throw new IOException("CRIU did not run the script: " + criu.output().strip());
      }
    } finally {
      DurableFiles.delete(directory);
    }
  }

  /** Writes the script into a new directory that is not mounted noexec. */
  private static Path executable(String script) throws IOException {
    List<Path> places =
        Stream.of(
                System.getProperty("java.io.tmpdir"),
                System.getenv("XDG_RUNTIME_DIR"),
                System.getProperty("user.home"))
            .filter(Objects::nonNull)
            .map(Path::of)
            .filter(Files::isWritable)
            .toList();
    for (Path place : places) {
      Path directory =
          Files.createTempDirectory(
              place, "gpuprocess-errand-", PosixFilePermissions.asFileAttribute(OURS));
      Path file = directory.resolve(SCRIPT);
      Files.createFile(file, PosixFilePermissions.asFileAttribute(OURS));
      Files.setPosixFilePermissions(file, OURS); // whatever the umask is
      Files.writeString(file, script);
      if (Files.isExecutable(file)) {
        return directory;
      }
      DurableFiles.delete(directory);
    }
    throw new IOException("no program can be run from any of " + places);
  }
}
