package dev.gpuprocess.internal.machine;

import dev.gpuprocess.error.Failure;
import dev.gpuprocess.error.MachineDifference;
import dev.gpuprocess.error.MachineDifference.Aspect;
import dev.gpuprocess.error.OperationTimedOutException;
import dev.gpuprocess.image.ImageMachine;
import dev.gpuprocess.image.MappedFile;
import dev.gpuprocess.internal.call.BoundedCall;
import dev.gpuprocess.internal.manifest.ManifestData;
import dev.gpuprocess.internal.proc.HostMounts;
import dev.gpuprocess.internal.text.NativePath;
import dev.gpuprocess.internal.text.Printable;
import dev.gpuprocess.options.CriuSwitch;
import dev.gpuprocess.options.RestoreOptions;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Compares the programs, libraries and host mounts of an image with those of this machine, as CRIU
 * does: by size and build id. No other content of the files is read.
 */
final class FileComparison {

  private static final String SUBJECT = "libraries of images";
  private static final Path ROOT = Path.of("/");

  private final int pid;
  private final List<String> mounts;
  private final List<MappedFile> files;
  private final boolean bySizeAlone;
  private final List<MachineDifference> found = new ArrayList<>();
  private final List<MappedFile> touched = new ArrayList<>();

  /** The file that is being compared, whose file system may not respond. */
  private volatile String current = "/";

  private FileComparison(
      ManifestData manifest, @Nullable ImageMachine before, RestoreOptions options) {
    this.pid = manifest.pid();
    this.mounts = manifest.options().mountedPaths();
    // Below another root directory, a path means another file.
    boolean isElsewhere =
        options.criu().find(CriuSwitch.ROOT).filter(root -> !root.equals(ROOT)).isPresent();
    this.files = before == null || isElsewhere ? List.of() : before.files();
    this.bySizeAlone = options.criu().has(CriuSwitch.FILE_SIZE_VALIDATION);
  }

  /**
   * Returns the differences.
   *
   * @throws OperationTimedOutException if a file system does not respond
   */
  static List<MachineDifference> of(
      ManifestData manifest, @Nullable ImageMachine before, RestoreOptions options) {
    return new FileComparison(manifest, before, options).within(options.deadline());
  }

  private List<MachineDifference> within(Duration limit) {
    BoundedCall.requireCapacity(SUBJECT, "restore of process " + pid);
    try {
      return BoundedCall.run(
          SUBJECT, "compare libraries of " + pid, limit, this::run, (late, failure) -> {});
    } catch (TimeoutException e) {
      throw new OperationTimedOutException(
          "restore of process %s: %s did not answer within the time limit of %s, and nothing was restored: check its file system"
              .formatted(pid, Printable.of(current), Printable.of(limit)),
          Failure.of("restore", pid),
          e);
    }
  }

  private List<MachineDifference> run() {
    for (String mount : mounts) {
      current = mount;
      if (!HostMounts.have(NativePath.of(mount))) {
        found.add(new MachineDifference(Aspect.MOUNT, mount, "mounted", "missing", true));
      }
    }
    for (MappedFile each : files) {
      current = each.path();
      compare(each);
    }
    if (!touched.isEmpty()) {
      MappedFile first = touched.get(0);
      add(
          first,
          "of " + first.modified(),
          "of another time"
              + (touched.size() == 1 ? "" : ", as are %s more".formatted(touched.size() - 1)),
          false);
    }
    return List.copyOf(found);
  }

  private void compare(MappedFile file) {
    String size = file.bytes() + " bytes";
    try (PinnedFile now = PinnedFile.at(NativePath.of(file.path()))) {
      if (!now.isRegular()) {
        add(file, size, "not a regular file", true);
      } else if (now.bytes() != file.bytes()) {
        add(file, size, now.bytes() + " bytes", true);
      } else {
        compareContent(file, now);
      }
    } catch (NoSuchFileException e) {
      add(file, size, "missing", true);
    } catch (IOException e) {
      add(file, size, "not known (" + reason(e) + ")", false);
    }
  }

  private static String reason(IOException e) {
    return e instanceof FileSystemException failed && failed.getReason() != null
        ? failed.getReason()
        : String.valueOf(e.getMessage());
  }

  private void compareContent(MappedFile file, PinnedFile now) throws IOException {
    Instant modified = file.modified();
    if (modified != null) {
      if (!modified.equals(now.modified())) {
        touched.add(file);
      }
      return;
    }
    Optional<String> id = now.buildId();
    if (!id.equals(Optional.ofNullable(file.buildId()))) {
      add(
          file,
          "build id " + file.buildId(),
          id.map("build id "::concat).orElse("no build id"),
          !bySizeAlone);
    }
  }

  private void add(MappedFile file, String before, String now, boolean prevents) {
    found.add(new MachineDifference(Aspect.FILE, file.path(), before, now, prevents));
  }
}
