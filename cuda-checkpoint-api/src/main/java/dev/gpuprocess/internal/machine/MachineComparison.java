package dev.gpuprocess.internal.machine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.MachineDifference.Aspect;
import dev.gpuprocess.error.MachineUnfitException;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.internal.context.EngineContext;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.RestoreOptions;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Finds the differences between this machine and the one that an image was made on, before a
 * restore. Properties that the image does not record are not compared. Changes nothing.
 */
public final class MachineComparison {

  private static final int LONGEST_MESSAGE = 8000;
  private static final int LONGEST_NOTE = 1000;

  private static final Set<Aspect> OF_DISKS = EnumSet.of(Aspect.FILE, Aspect.MOUNT);

  private static final Pattern VERSION = Pattern.compile("\\d{1,9}(\\.\\d{1,9}){0,9}");

  private final ManifestData manifest;
  private final ThisMachine here;
  private final RestoreOptions options;
  private final List<MachineDifference> found = new ArrayList<>();

  private MachineComparison(ManifestData manifest, ThisMachine here, RestoreOptions options) {
    this.manifest = manifest;
    this.here = here;
    this.options = options;
  }

  /** Returns all differences, beginning with those that prevent a restore. */
  public static List<MachineDifference> differences(
      EngineContext context, ManifestData manifest, RestoreOptions options) {
    return of(manifest, ThisMachine.look(context), options);
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

  static List<MachineDifference> of(
      ManifestData manifest, ThisMachine here, RestoreOptions options) {
    return new MachineComparison(manifest, here, options).run();
  }

  private List<MachineDifference> run() {
    ImageMachine before = manifest.machine();
    if (before != null) {
      compareCpu(before);
    }
    if (!manifest.cudaProcesses().isEmpty()) {
      compareDriver();
    }
    if (before != null) {
      found.addAll(GpuComparison.of(manifest, before, here));
    }
    found.addAll(FileComparison.of(manifest, before, options));
    compareVersion(Aspect.KERNEL, "kernel", manifest.kernel(), here.kernel());
    compareVersion(Aspect.CRIU, "CRIU", manifest.criuVersion(), here.criu());
    return found.stream().sorted(Comparator.comparing(each -> !each.prevents())).toList();
  }

  private void compareCpu(ImageMachine before) {
    if (!before.architecture().equals(here.architecture())) {
      add(Aspect.CPU, "CPU", before.architecture(), here.architecture(), true);
      return;
    }
    List<String> missing = new ArrayList<>(before.cpuFeatures());
    missing.removeAll(here.cpu().features());
    if (!missing.isEmpty() && !here.cpu().features().isEmpty()) {
      boolean asked =
          options
              .criu()
              .find(CriuSwitch.CPU_CAP)
              .map(check -> check.compareTo(CpuCheck.INSTRUCTIONS) >= 0)
              .orElse(true);
      add(
          Aspect.CPU,
          "CPU",
          "%s with %s".formatted(named(before.cpu()), String.join(", ", missing)),
          "%s without".formatted(named(here.cpu().name())),
          asked);
    }
  }

  private static String named(String cpu) {
    return cpu.isEmpty() ? "one" : cpu;
  }

  private void compareDriver() {
    String before = manifest.driverVersion();
    String now = here.driver().orElse("not known");
    if (!before.isEmpty() && !before.equals(now)) {
      add(Aspect.DRIVER, "driver", before, now, isOlder(now, before));
    }
  }

  /** Compares versions such as {@code 580.159.04}; false if one is not a version. */
  private static boolean isOlder(String now, String before) {
    return VERSION.matcher(now).matches()
        && VERSION.matcher(before).matches()
        && Arrays.compare(parts(now), parts(before)) < 0;
  }

  private static int[] parts(String version) {
    return Arrays.stream(version.split("\\.")).mapToInt(Integer::parseInt).toArray();
  }

  private void compareVersion(Aspect aspect, String subject, String before, String now) {
    if (!before.isEmpty() && !before.equals(now)) {
      add(aspect, subject, before, now, false);
    }
  }

  private void add(Aspect aspect, String subject, String before, String now, boolean prevents) {
    found.add(new MachineDifference(aspect, subject, before, now, prevents));
  }
}
