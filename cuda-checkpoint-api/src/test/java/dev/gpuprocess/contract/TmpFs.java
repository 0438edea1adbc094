package dev.gpuprocess.contract;

import dev.gpuprocess.fixtures.ProgramRun;
import dev.gpuprocess.internal.time.Polling;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Assumptions;

/** A small file system in memory, mounted for the time of a test. Needs root. */
public final class TmpFs implements AutoCloseable {

  /**
   * What a shell does first in an isolated job, and nowhere else, as it unmounts what other tests
   * have mounted: an image names the mounts that its job has, and theirs are gone when it is
   * restored.
   */
  public static final String LEAVE_MOUNTS_OF_TESTS =
      "while read -r _ _ _ _ point _; do case $point in %s/junit*) umount -l $point;; esac; done </proc/self/mountinfo 2>/dev/null; "
          .formatted(System.getProperty("java.io.tmpdir"));

  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final Path point;

  private TmpFs(Path point) {
    this.point = point;
  }

  /**
   * Mounts one, or aborts the test where that is not allowed.
   *
   * @param point an existing directory
   * @param options such as {@code size=1m}
   * @return the mount, which ends when closed
   */
  public static TmpFs mount(Path point, String options) {
    String error = mountTmpfs(point, options);
    Assumptions.assumeTrue(error.isEmpty(), () -> "cannot mount a tmpfs: " + error);
    return new TmpFs(point);
  }

  /**
   * Mounts one for save areas, whose large files are in huge pages if the kernel has them: pages of
   * 4 KiB take five times as long to make. A small file takes no more than its size.
   *
   * @param point an existing directory
   * @param options such as {@code size=1m}
   * @return the mount, which ends when closed
   */
  public static TmpFs mountForSaveAreas(Path point, String options) {
    String error = mountTmpfs(point, "huge=within_size," + options);
    return error.isEmpty() ? new TmpFs(point) : mount(point, options);
  }

  private static String mountTmpfs(Path point, String options) {
    return run("mount", "-t", "tmpfs", "-o", options, "tmpfs", point.toString());
  }

  /**
   * Mounts a directory on itself, or aborts the test where that is not allowed.
   *
   * @param point an existing directory
   * @return the mount, which ends when closed
   */
  public static TmpFs bind(Path point) {
    String error = run("mount", "--bind", point.toString(), point.toString());
    Assumptions.assumeTrue(error.isEmpty(), () -> "cannot mount: " + error);
    return new TmpFs(point);
  }

  /**
   * Where it is mounted.
   *
   * @return the directory
   */
  public Path point() {
    return point;
  }

  /**
   * Returns how much memory its files take, those without a name included.
   *
   * @return bytes
   */
  public long takenBytes() {
    return point.toFile().getTotalSpace() - point.toFile().getFreeSpace();
  }

  /**
   * Changes its options.
   *
   * @param options such as {@code ro}
   */
  public void remount(String options) {
    String error = run("mount", "-o", "remount," + options, point.toString());
    if (!error.isEmpty()) {
      throw new IllegalStateException(error);
    }
  }

  private static String run(String... command) {
    ProgramRun.Ended ended = ProgramRun.of(command).run();
    return ended.exit() == 0
        ? ""
        : command[0] + " exited with " + ended.exit() + ": " + ended.printed().strip();
  }

  /** A controller holds the save files of a process until it has seen that the process ended. */
  @Override
  public void close() {
    boolean done = Polling.until(PATIENCE, () -> unmount().isEmpty());
    String error = done ? "" : unmount();
    if (!error.isEmpty()) {
      throw new IllegalStateException(error);
    }
  }

  private String unmount() {
    return run("umount", point.toString());
  }
}
