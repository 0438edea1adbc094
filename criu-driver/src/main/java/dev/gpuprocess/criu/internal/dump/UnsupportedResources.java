package dev.gpuprocess.criu.internal.dump;

import dev.gpuprocess.criu.internal.preflight.Preflight;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.error.UnsupportedResource;
import dev.gpuprocess.error.UnsupportedResource.Kind;
import dev.gpuprocess.internal.proc.OpenFile;
import dev.gpuprocess.internal.proc.ProcFs;
import dev.gpuprocess.internal.proc.ProcessUnreadableException;
import dev.gpuprocess.options.DumpOptions;
import dev.gpuprocess.report.Finding;
import dev.gpuprocess.report.ProcessIdentity;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Identifies what CRIU could not dump. CRIU reports little more than a number; the tree survives a
 * failed dump, so it can be inspected.
 */
final class UnsupportedResources {

  private static final Logger LOG = LoggerFactory.getLogger(UnsupportedResources.class);

  private static final Pattern DESCRIPTOR =
      Pattern.compile("Can't dump file (\\d+) of that type \\[\\w+\\] \\((.*)\\)");
  private static final Pattern NO_MOUNT =
      Pattern.compile("Can't lookup mount=(-?\\d+) for fd=(-?\\d+) path=(.*)");

  /** What CRIU reports for each kind of resource. */
  private static final Map<Pattern, Kind> KINDS =
      Map.ofEntries(
          kind("Connected TCP socket", Kind.TCP_CONNECTION),
          kind("In-flight connection", Kind.TCP_LISTENER),
          kind("Some file locks are hold", Kind.FILE_LOCK),
          kind("Can't dump ghost file", Kind.REMOVED_FILE),
          kind("Can't create link remap", Kind.RENAMED_FILE),
          kind("External socket is used", Kind.UNIX_SOCKET),
          kind("Can't dump half of stream unix connection", Kind.UNIX_SOCKET),
          kind("Can't dump name-less external socket", Kind.UNIX_SOCKET),
          kind("Can't handle non-regular mapping", Kind.MAPPING),
          kind("SysVIPC shmem map", Kind.SYSTEM_V_MEMORY),
          kind("Can't open .*mapfile link", Kind.MAPPING),
          kind("without correspond master peer", Kind.TERMINAL),
          kind("A session leader of .* is outside of its pid namespace", Kind.SESSION),
          kind("send_fds failed", Kind.IO_URING));

  private UnsupportedResources() {}

  /**
   * Finds the resources that made a dump fail.
   *
   * @param errors CRIU's errors
   * @param blamed the task at which CRIU failed, or 0 if CRIU does not say
   * @return empty if the dump failed for another reason, or the resource is gone
   */
  static List<UnsupportedResource> find(
      List<String> errors, int blamed, ProcessIdentity root, DumpOptions options) {
    if (errors.stream().noneMatch(UnsupportedResources::isReason)) {
      return List.of();
    }
    int pid = blamed == 0 ? root.pid() : blamed;
    List<UnsupportedResource> named = reported(errors, pid);
    // There may be other obstacles, but this dump did not fail because of them.
    List<UnsupportedResource> confirmed =
        findings(root, options).stream()
            .filter(Finding::isProblem)
            .flatMap(each -> Stream.ofNullable(each.resource()))
            .filter(
                each ->
                    named.stream().anyMatch(other -> isSame(each, other))
                        || errors.stream().anyMatch(error -> isOfKind(each, error)))
            .toList();
    return confirmed.isEmpty() ? named : confirmed;
  }

  /** Returns whether a finding covers a descriptor that CRIU names; it may cover several. */
  private static boolean isSame(UnsupportedResource found, UnsupportedResource named) {
    return found.pid() == named.pid()
        && List.of(found.handle().replaceFirst("^descriptors? ", "").split(", "))
            .contains(named.handle().replaceFirst("^descriptor ", ""));
  }

  private static boolean isOfKind(UnsupportedResource resource, String error) {
    return KINDS.entrySet().stream()
        .anyMatch(
            each -> each.getValue() == resource.kind() && each.getKey().matcher(error).find());
  }

  private static Map.Entry<Pattern, Kind> kind(String error, Kind kind) {
    return Map.entry(Pattern.compile(error, Pattern.DOTALL), kind);
  }

  /** Returns nothing if the tree cannot be inspected, as that must not hide what CRIU reported. */
  private static List<Finding> findings(ProcessIdentity root, DumpOptions options) {
    try {
      return Preflight.of(root, options, true);
    } catch (ProcessUnreadableException | OperationTimedOutException e) {
      LOG.debug("process {} cannot be looked into", root.pid(), e);
      return List.of();
    }
  }

  private static boolean isReason(String error) {
    return DESCRIPTOR.matcher(error).find()
        || NO_MOUNT.matcher(error).find()
        || KINDS.keySet().stream().anyMatch(kind -> kind.matcher(error).find());
  }

  /** What CRIU itself reports, for resources that cannot be found by inspecting the tree. */
  private static List<UnsupportedResource> reported(List<String> errors, int pid) {
    return errors.stream()
        .flatMap(error -> descriptor(error, pid).or(() -> noMount(error, pid)).stream())
        .toList();
  }

  private static Optional<UnsupportedResource> descriptor(String error, int pid) {
    Matcher found = DESCRIPTOR.matcher(error);
    return found.find()
        ? Optional.of(
            new UnsupportedResource(
                Kind.OTHER,
                pid,
                "descriptor " + found.group(1),
                target(pid, found.group(1), found.group(2)),
                null))
        : Optional.empty();
  }

  private static Optional<UnsupportedResource> noMount(String error, int pid) {
    Matcher found = NO_MOUNT.matcher(error);
    return found.find()
        ? Optional.of(
            new UnsupportedResource(pid, "descriptor " + found.group(2), found.group(3), null))
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
