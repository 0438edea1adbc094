package dev.gpuprocess.examples.zdtm;

import dev.gpuprocess.options.CgroupMode;
import dev.gpuprocess.options.Cgroups;
import dev.gpuprocess.options.CriuOptions;
import java.nio.file.Path;
import java.util.Deque;
import org.jspecify.annotations.Nullable;

/** What a test program asks of CRIU about cgroups. */
final class CgroupOptions {

  private @Nullable Cgroups cgroups;

  /** Takes an option, with its value, if it is one of them. */
  boolean take(String word, Deque<String> following) {
    switch (word) {
      case "--manage-cgroups" -> cgroups = Cgroups.of(CgroupMode.SOFT);
      case "--manage-cgroups=full" -> cgroups = Cgroups.of(CgroupMode.FULL);
      case "--manage-cgroups=ignore" -> cgroups = Cgroups.of(CgroupMode.IGNORE);
      case "--cgroup-root" -> {
        String value = following.remove();
        int colon = value.indexOf(':');
        String controller = value.substring(0, Math.max(colon, 0));
        cgroups = managed().root(controller, value.substring(colon + 1));
      }
      case "--cgroup-yard" -> cgroups = managed().yard(Path.of(following.remove()));
      default -> {
        return false;
      }
    }
    return true;
  }

  private Cgroups managed() {
    return cgroups == null ? Cgroups.of(CgroupMode.SOFT) : cgroups;
  }

  /** Adds all of it, if there is anything. */
  void addTo(CriuOptions.Builder criu) {
    if (cgroups != null) {
      criu.cgroups(cgroups);
    }
  }
}
