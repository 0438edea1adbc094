package dev.gpuprocess.internal.machine;

import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.MachineDifference.Aspect;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.options.CpuCheck;
import dev.gpuprocess.options.RestoreOptions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Finds the differences between this machine and the one that an image was made on. Properties that
 * the image does not record are not compared.
 */
final class MachineComparison {

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
              .cpuCheck()
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
