package dev.gpuprocess.internal.launch;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.FixAndRetryException;
import dev.gpuprocess.error.FixAndRetryException.Reason;
import dev.gpuprocess.internal.linux.ExitStatus;
import dev.gpuprocess.internal.linux.Libc;
import dev.gpuprocess.options.LaunchOptions;
import java.io.File;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/** The exceptions for the failures that the starter program reports. */
final class LaunchFailures {

  // enum step of start.c
  private static final int NAMESPACES = 1;
  private static final int MOUNTS = 2;
  private static final int DIRECTORY = 3;
  private static final int FILE_IN = 4;
  private static final int FILE_OUT = 5;
  private static final int FILE_ERR = 6;
  static final int EXEC = 7;
  private static final int FILE_KIND = 8;
  private static final int REQUESTS = 9;
  private static final int JOB_FILE = 10;

  private static final Map<Integer, Reason> REASONS =
      Map.of(
          1, Reason.LAUNCH_NOT_PERMITTED, // EPERM
          2, Reason.LAUNCH_MISSING, // ENOENT
          7, Reason.LAUNCH_TOO_LONG, // E2BIG
          8, Reason.LAUNCH_NOT_A_PROGRAM, // ENOEXEC
          13, Reason.LAUNCH_NOT_PERMITTED, // EACCES
          20, Reason.LAUNCH_NOT_A_DIRECTORY, // ENOTDIR
          21, Reason.LAUNCH_NOT_A_FILE, // EISDIR
          80, Reason.LAUNCH_NOT_A_PROGRAM); // ELIBBAD

  private LaunchFailures() {}

  /** Returns whether an error means that arguments or environment are too long. */
  static boolean isTooLong(int error) {
    return REASONS.get(error) == Reason.LAUNCH_TOO_LONG;
  }

  /** Creates the exception for a step that failed with an error. */
  static FixAndRetryException of(LaunchOptions options, int step, int error) {
    String text = Libc.text(error);
    if (step == FILE_KIND
        || (error == Libc.ENXIO && step != EXEC && step != REQUESTS && step != JOB_FILE)) {
      return exception(
          options,
          "%s is neither a regular file nor a character device: name another one"
              .formatted(subject(options, step == FILE_KIND ? error : step)),
          Reason.LAUNCH_NOT_A_FILE);
    }
    Reason reason = REASONS.getOrDefault(error, Reason.LAUNCH_FAILED);
    if (step == EXEC && reason == Reason.LAUNCH_NOT_A_FILE) {
      reason = Reason.LAUNCH_NOT_A_PROGRAM;
    }
    return exception(
        options,
        "%s: %s; %s".formatted(subject(options, step), text, cure(options, step, reason)),
        reason);
  }

  /** Creates the exception for a process that was killed before it executed the command. */
  static FixAndRetryException killed(LaunchOptions options, Optional<ExitStatus> status) {
    return exception(
        options,
        "it was killed%s while it started: find out which program kills processes here, and try again"
            .formatted(
                status.map(end -> end.signal() > 0 ? " by signal " + end.signal() : "").orElse("")),
        Reason.LAUNCH_KILLED);
  }

  private static FixAndRetryException exception(LaunchOptions options, String why, Reason reason) {
    return new FixAndRetryException(
        reason,
        "%s was not started: %s".formatted(options.command().get(0), why),
        Failure.of("launch", 0));
  }

  private static String subject(LaunchOptions options, int step) {
    return switch (step) {
      case NAMESPACES -> "a pid namespace and a mount namespace cannot be made";
      case MOUNTS -> "/proc and /dev/shm cannot be mounted in a mount namespace of its own";
      case REQUESTS -> "the socket that takes its requests for snapshots cannot be made";
      case JOB_FILE -> "the job file of the CUDA driver cannot be made";
      case DIRECTORY -> "its directory " + text(options.directory());
      case FILE_IN -> "its input " + text(options.input());
      case FILE_OUT -> "its output " + text(file(options.output()));
      case FILE_ERR -> "its error output " + text(options.error().flatMap(LaunchFailures::file));
      default -> "the program cannot be executed";
    };
  }

  private static Optional<Path> file(Redirect output) {
    return Optional.ofNullable(output.file()).map(File::toPath);
  }

  private static String text(Optional<Path> file) {
    return file.map(Path::toString).orElse("/dev/null");
  }

  private static String cure(LaunchOptions options, int step, Reason reason) {
    if (step == NAMESPACES || step == MOUNTS) {
      return "launch isolated processes as root with CAP_SYS_ADMIN, or launch it without isolated(true)";
    }
    if (step == REQUESTS) {
      return "have user.home name a directory with a short path that can be written";
    }
    if (step == JOB_FILE) {
      return "make room in the state directory, and in the /dev/shm of an isolated process, or remove CUDA_CHECKPOINT_JOB_FILE from its environment";
    }
    if (step == EXEC && reason == Reason.LAUNCH_MISSING) {
      return options.command().get(0).indexOf('/') < 0
          ? "name a program that is in the PATH of the process, or its whole path"
          : "name a program that exists, and whose interpreter exists";
    }
    return switch (reason) {
      case LAUNCH_MISSING -> "check the path: no such file or directory";
      case LAUNCH_NOT_PERMITTED -> "give this user access to it, or name another one";
      case LAUNCH_NOT_A_DIRECTORY -> "name a directory";
      case LAUNCH_TOO_LONG -> "pass less to it";
      case LAUNCH_NOT_A_PROGRAM -> "name a program for this machine";
      default -> "name another one";
    };
  }
}
