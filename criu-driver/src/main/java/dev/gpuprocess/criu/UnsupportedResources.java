package dev.gpuprocess.criu;

import dev.gpuprocess.DumpOptions;
import dev.gpuprocess.Finding;
import dev.gpuprocess.ProcessIdentity;
import dev.gpuprocess.criu.preflight.Preflight;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.ProcessUnreadableException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.proc.OpenFile;
import dev.gpuprocess.proc.ProcFs;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Names what CRIU could not dump. CRIU says little more than a number; the tree lives on after a
 * failed dump, so it can be looked at.
 */
final class UnsupportedResources {

  private static final Logger LOG = LoggerFactory.getLogger(UnsupportedResources.class);

  private static final Pattern DESCRIPTOR =
      Pattern.compile("Can't dump file (\\d+) of that type \\[\\w+\\] \\((.*)\\)");
  private static final Pattern NO_MOUNT =
      Pattern.compile("Can't lookup mount=(-?\\d+) for fd=(-?\\d+) path=(.*)");

  /** What CRIU says when the reason is something that the tree has. */
  private static final List<Pattern> REASONS =
      List.of(
          DESCRIPTOR,
          NO_MOUNT,
          Pattern.compile("Connected TCP socket"),
          Pattern.compile("In-flight connection"),
          Pattern.compile("Some file locks are hold"),
          Pattern.compile("Can't dump ghost file"),
          Pattern.compile("Can't create link remap"),
          Pattern.compile("External socket is used"),
          Pattern.compile("Can't dump half of stream unix connection"),
          Pattern.compile("Can't handle non-regular mapping"),
          Pattern.compile("SysVIPC shmem map"),
          Pattern.compile("Can't open mapfile link|mapfile link"),
          Pattern.compile("without correspond master peer"),
          Pattern.compile("A session leader of .* is outside of its pid namespace"),
          Pattern.compile("send_fds failed"));

  private UnsupportedResources() {}

  /**
   * Finds them.
   *
   * @param errors CRIU's
   * @param blamed the task that CRIU failed at, 0 when it does not say
   * @return empty when the reason is another, or cannot be found any more
   */
  static List<UnsupportedResource> find(
      List<String> errors, int blamed, ProcessIdentity root, DumpOptions options) {
    if (errors.stream().noneMatch(UnsupportedResources::isReason)) {
      return List.of();
    }
    List<Finding> findings =
        findings(root, options).stream().filter(each -> each.resource() != null).toList();
    List<Finding> certain = findings.stream().filter(Finding::isProblem).toList();
    List<UnsupportedResource> known =
        (certain.isEmpty() ? findings : certain)
            .stream().flatMap(each -> Stream.ofNullable(each.resource())).toList();
    return known.isEmpty() ? said(errors, blamed == 0 ? root.pid() : blamed) : known;
  }

  /** What CRIU said matters more than that nothing can be added to it. */
  private static List<Finding> findings(ProcessIdentity root, DumpOptions options) {
    try {
      return Preflight.of(root, options);
    } catch (ProcessUnreadableException | OperationTimedOutException e) {
      LOG.debug("process {} cannot be looked into", root.pid(), e);
      return List.of();
    }
  }

  private static boolean isReason(String error) {
    return REASONS.stream().anyMatch(reason -> reason.matcher(error).find());
  }

  /** What CRIU itself says, for the things that a look at the tree does not tell. */
  private static List<UnsupportedResource> said(List<String> errors, int pid) {
    return errors.stream()
        .flatMap(error -> descriptor(error, pid).or(() -> noMount(error, pid)).stream())
        .toList();
  }

  private static Optional<UnsupportedResource> descriptor(String error, int pid) {
    Matcher said = DESCRIPTOR.matcher(error);
    return said.find()
        ? Optional.of(
            new UnsupportedResource(
                pid,
                "descriptor " + said.group(1),
                target(pid, said.group(1), said.group(2)),
                null))
        : Optional.empty();
  }

  private static Optional<UnsupportedResource> noMount(String error, int pid) {
    Matcher said = NO_MOUNT.matcher(error);
    return said.find()
        ? Optional.of(
            new UnsupportedResource(
                pid,
                "descriptor " + said.group(2),
                said.group(3),
                "DumpOptions.external(External.file(%s, inode))".formatted(said.group(1))))
        : Optional.empty();
  }

  private static String target(int pid, String number, String otherwise) {
    try {
      return ProcFs.visibleFiles(pid).stream()
          .filter(file -> Integer.toString(file.number()).equals(number))
          .map(OpenFile::target)
          .findFirst()
          .orElse(otherwise);
    } catch (ProcessUnreadableException e) {
      LOG.debug("process {} cannot be looked into", pid, e);
      return otherwise;
    }
  }
}
