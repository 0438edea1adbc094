package dev.gpuprocess.examples.verification;

import dev.gpuprocess.GpuProcess;
import dev.gpuprocess.report.ProcessMember;
import java.util.List;
import java.util.stream.Collectors;

/**
 * The members of a process in one line: {@code 2 CUDA processes below 4711: 4713 (612 MiB), ...}.
 */
final class Members {

  private static final int MOST = 8;

  private Members() {}

  static String text(GpuProcess process) {
    List<ProcessMember> members = process.members();
    String each = members.stream().limit(MOST).map(Members::text).collect(Collectors.joining(", "));
    String which =
        members.size() == 1 && members.get(0).pid() == process.pid()
            ? "1 CUDA process, the root: "
            : "%s CUDA processes below %s: ".formatted(members.size(), process.pid());
    return which + each;
  }

  private static String text(ProcessMember member) {
    return member.gpuBytes().isEmpty()
        ? member.pid() + " (no GPU memory)"
        : "%s (%s MiB)"
            .formatted(
                member.pid(),
                member.gpuBytes().values().stream()
                    .map(bytes -> Long.toString(bytes >> 20))
                    .collect(Collectors.joining(" + ")));
  }
}
