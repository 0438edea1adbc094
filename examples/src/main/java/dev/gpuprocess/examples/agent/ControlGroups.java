package dev.gpuprocess.examples.agent;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

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
    try {
      return parse(Files.readString(proc.resolve(pid + "/cgroup"), StandardCharsets.UTF_8));
    } catch (IOException e) {
      return Optional.empty(); // it has ended
    }
  }

  /** Reads the content of {@code /proc/PID/cgroup}. */
  static Optional<Container> parse(String text) {
    Matcher found = CONTAINER.matcher(text);
    return found.find()
        ? Optional.of(new Container(found.group(1).replace('_', '-'), found.group(2)))
        : Optional.empty();
  }

  /** Returns the value of an environment variable that a process was started with. */
  Optional<String> variable(long pid, String name) {
    try {
      String all = Files.readString(proc.resolve(pid + "/environ"), StandardCharsets.ISO_8859_1);
      for (String each : all.split("\0")) {
        if (each.startsWith(name + "=")) {
          return Optional.of(each.substring(name.length() + 1));
        }
      }
      return Optional.empty();
    } catch (IOException e) {
      return Optional.empty();
    }
  }
}
