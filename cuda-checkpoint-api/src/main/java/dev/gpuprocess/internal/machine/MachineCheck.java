package dev.gpuprocess.internal.machine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.MachineDifference.Aspect;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/** Checks before a restore that this machine has what the image needs. Changes nothing. */
public final class MachineCheck {

  private static final int LONGEST_MESSAGE = 8000;
  private static final int LONGEST_NOTE = 1000;

  private static final Set<Aspect> OF_DISKS = EnumSet.of(Aspect.FILE, Aspect.MOUNT);

  private MachineCheck() {}

  /** Returns all differences, beginning with those that prevent a restore. */
  public static List<MachineDifference> differences(
      EngineContext context, ManifestData manifest, RestoreOptions options) {
    return MachineComparison.of(manifest, ThisMachine.look(context), options);
  }

  /**
   * Refuses a restore that would fail.
   *
   * @return the other differences, in words
   * @throws MachineUnfitException with reason MACHINE_MISMATCH if a difference prevents the restore
   */
  public static String require(
      EngineContext context, Path image, ManifestData manifest, RestoreOptions options) {
    return require(image, manifest.pid(), differences(context, manifest, options));
  }

  static String require(Path image, int pid, List<MachineDifference> all) {
    List<MachineDifference> certain = all.stream().filter(MachineDifference::prevents).toList();
    List<MachineDifference> remarkable = all.stream().filter(each -> !each.prevents()).toList();
    if (certain.isEmpty()) {
      return words(remarkable, LONGEST_NOTE);
    }
    throw MachineUnfitException.machineMismatch(
        "the image %s cannot be restored on this machine (%s)%s: %s, or set RestoreOptions.skipMachineCheck(true) if the processes can run without them; nothing was restored"
            .formatted(
                image,
                words(certain, LONGEST_MESSAGE),
                remarkable.isEmpty()
                    ? ""
                    : ", and also differs (" + words(remarkable, LONGEST_NOTE) + ")",
                cure(certain)),
        Failure.of("restore", pid),
        all);
  }

  private static String cure(List<MachineDifference> certain) {
    boolean anyOfDisks = certain.stream().anyMatch(each -> OF_DISKS.contains(each.aspect()));
    boolean anyOther = certain.stream().anyMatch(each -> !OF_DISKS.contains(each.aspect()));
    return (anyOther ? "use a machine like that of the dump" : "")
        + (anyOther && anyOfDisks ? " and " : "")
        + (anyOfDisks ? "put these files there as they were" : "");
  }

  /** Lists differences up to a length. */
  private static String words(List<MachineDifference> differences, int most) {
    StringBuilder text = new StringBuilder();
    int listed = 0;
    while (listed < differences.size() && text.length() < most) {
      text.append(listed == 0 ? "" : "; ").append(differences.get(listed++));
    }
    int more = differences.size() - listed;
    return more == 0 ? text.toString() : text + "; and %s more".formatted(more);
  }
}
