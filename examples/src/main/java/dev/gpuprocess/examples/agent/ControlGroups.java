package dev.gpuprocess.examples.agent;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Finds the pod and the container of a process by its control group, as the kubelet names it with
 * both of its drivers ({@code systemd} and {@code cgroupfs}), in version 1 and 2.
 */
final class ControlGroups {

  /**
   * {@code kubepods}, perhaps the class of the pod, {@code pod} and its uid, and the container. The
   * first match counts: what is below the container is named by the container.
   */
  private static final Pattern CONTAINER =
      Pattern.compile(
          "kubepods\\S*?[/-]pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\\.slice)?"
              + "(?:/|:cri-containerd:)(?:[a-z]+(?:-[a-z]+)*-)?([0-9a-f]{64})(?:\\.scope)?(?:/|$)",
          Pattern.MULTILINE);

  /** A process chooses the size of its environment: {@code PR_SET_MM} makes it gigabytes. */
  private static final int LARGEST_ENVIRONMENT = 1 << 20;

  /** Some lines, each with a path of at most 4 KiB. */
  private static final int LARGEST_CGROUP = 1 << 17;

  private final Path proc;

  /**
   * Creates the search.
   *
   * @param proc {@code /proc}
   */
  ControlGroups(Path proc) {
    this.proc = proc;
  }

  /**
   * A container of a pod.
   *
   * @param pod the uid of the pod, with hyphens where it has them
   * @param id of the container runtime
   */
  record Container(String pod, String id) {}

  /** Returns the container of a process; empty if it is in none, or cannot be read. */
  Optional<Container> container(long pid) {
    return read(pid, "cgroup", LARGEST_CGROUP).flatMap(ControlGroups::parse);
  }

  /** Reads the content of {@code /proc/PID/cgroup}. */
  static Optional<Container> parse(String text) {
    Matcher found = CONTAINER.matcher(text);
    return found.find()
        ? Optional.of(new Container(found.group(1).replace('_', '-'), found.group(2)))
        : Optional.empty();
  }

  /**
   * Returns the value of an environment variable that a process was started with; empty if the
   * process has no such variable, an environment of more than 1 MiB, or has ended.
   */
  Optional<String> variable(long pid, String name) {
    return read(pid, "environ", LARGEST_ENVIRONMENT).flatMap(all -> value(all, name));
  }

  private static Optional<String> value(String environment, String name) {
    String start = name + "=";
    return Stream.of(environment.split("\0"))
        .filter(variable -> variable.startsWith(start))
        .findFirst()
        .map(variable -> variable.substring(start.length()));
  }

  /** Reads a file of a process; empty if it is too large, or cannot be read. */
  private Optional<String> read(long pid, String name, int most) {
    try (InputStream in = Files.newInputStream(proc.resolve(pid + "/" + name))) {
      byte[] bytes = in.readNBytes(most + 1);
      return bytes.length > most
          ? Optional.empty()
          : Optional.of(new String(bytes, StandardCharsets.ISO_8859_1));
    } catch (IOException e) {
      return Optional.empty(); // it has ended
    }
  }
}
